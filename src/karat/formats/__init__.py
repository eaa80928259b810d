"""Readers: one file a format. The format is recognised from the content, or named."""
