"""The pages: each asks the history for what it shows, and no more."""
