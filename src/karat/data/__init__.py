"""What flows: hits, gold, corpus, ids, and what is counted on the way."""
