"""Retrievers: they make input tables; nothing after `judged` knows of them."""
