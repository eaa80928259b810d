"""Gold passages, located in the chunks of each run."""
