"""Readers, one file per format. The format is recognised from the content, or named."""
