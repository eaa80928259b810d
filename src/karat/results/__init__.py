"""Explains: a result, what it is compared with, and what its data tells."""
