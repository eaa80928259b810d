"""Data types: hits, gold, corpus, ids and the audit."""
