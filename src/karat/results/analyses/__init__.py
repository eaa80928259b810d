"""What a run's own data shows beyond the scores, one file per analysis."""
