"""Decides whether a run may ship: criteria, verdicts, and their false alarms."""
