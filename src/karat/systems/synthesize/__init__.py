"""Queries that a model makes up from a corpus, each with the chunk that answers it; only what withstands checks."""
