"""Explains: results, comparisons, and what their data shows."""
