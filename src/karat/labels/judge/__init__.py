"""Let a model grade how well a passage answers a query, with checked answers and built-in tests."""
