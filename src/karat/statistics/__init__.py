"""How sure are we: arrays in, arrays out. Nothing here knows of runs, gold or metrics."""
