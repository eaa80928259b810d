"""What a run's own data tells beyond the scores, one file an analysis."""
