"""Sources of saved results other than files, by prefix."""
