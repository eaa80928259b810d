"""Statistics: arrays in, arrays out. Nothing here depends on runs, gold or metrics."""
