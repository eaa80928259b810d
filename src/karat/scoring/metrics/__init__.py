"""Metrics. A metric parses from and prints as text such as `recall@5`."""
