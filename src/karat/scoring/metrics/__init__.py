"""Metrics: a metric is a value that parses from and prints as text such as `recall@5`."""
