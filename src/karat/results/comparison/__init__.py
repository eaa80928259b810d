"""Compare runs on the same queries: which is better, by how much, how surely, and where."""
