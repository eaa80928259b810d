"""Generates queries from a corpus with a model, each with the chunk that answers it, and checks them."""
