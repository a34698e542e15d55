"""The log of what became of documents: pages of it, for stores, and following it, for callers."""
