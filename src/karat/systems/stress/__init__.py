"""Hard-negative stress: what looks right and is not, put in at the top."""
