"""When does a text cover an evidence. Plain functions on texts; knows nothing of runs."""
