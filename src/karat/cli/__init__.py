"""The command line: arguments only, no logic."""
