"""Saved results that are not files, by the prefix of their names."""
