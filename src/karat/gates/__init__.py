"""May it ship: criteria, verdicts, and how often they would cry wolf."""
