"""Runs on the same queries: which is better, by how much, how sure, and where."""
