"""Matches chunks with evidence texts. Plain functions on text, independent of runs."""

THRESHOLD = 0.7  # how similar two texts must be, by default
