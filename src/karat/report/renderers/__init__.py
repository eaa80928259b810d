"""Renderers: the same report for a terminal, a pull request, a program."""
