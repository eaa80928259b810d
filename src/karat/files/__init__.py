"""Files on disk: written whole or not at all, appended to, YAML with line numbers, git."""
