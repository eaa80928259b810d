"""Labels: which pairs of query and passage to judge, what people and models said of them, and how far they agree."""
