"""Matches chunks with evidence texts. Plain functions on text, independent of runs."""
