"""Traces of production systems, read as run logs."""
