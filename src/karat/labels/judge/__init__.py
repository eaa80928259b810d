"""A model says how far a passage answers a query: asked safely, checked, and tested while it works."""
