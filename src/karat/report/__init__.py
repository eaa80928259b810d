"""One report of blocks, made by sections, shown by renderers."""
