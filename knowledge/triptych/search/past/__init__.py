"""Searches of the past: a store of a moment, filled from the versions that are kept."""
