"""Where slices of a run are scored: in this process, in several, or on a cluster. The numbers are the same."""
