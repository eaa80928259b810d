"""Metrics: a metric is a value that parses from and prints as text such as `recall@5`."""

from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import all_metrics, parse_metric, parse_metrics

__all__ = ["Metric", "all_metrics", "parse_metric", "parse_metrics"]
