"""Recognises each format, one file per format. Its reader is loaded when a file is read."""
