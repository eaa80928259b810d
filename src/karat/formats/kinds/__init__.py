"""How each format is recognised, one file per format. Its reader is loaded when a file is read."""
