"""Vectors: finding texts that lack them, calling models, and storing the results."""
