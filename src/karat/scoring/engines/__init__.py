"""Engines score slices of a run: in this process, in several, or on a cluster. The numbers are the same."""
