"""The pages. Each reads only what it shows from the history."""
