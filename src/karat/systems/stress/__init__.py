"""Stress tests with hard negatives: wrong hits that look right, inserted at the top."""
