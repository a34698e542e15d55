"""Triptych, a layered knowledge base."""
