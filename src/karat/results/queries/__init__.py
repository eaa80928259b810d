"""Individual queries: their lists, those that failed, those that changed."""
