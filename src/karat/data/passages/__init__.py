"""Gold that is a passage of a document, found among the chunks of each run."""
