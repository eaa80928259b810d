"""Past runs: what is kept of each, where, and how they are found again."""
