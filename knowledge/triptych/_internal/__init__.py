"""Helpers that several packages share. Not public: they may change in any version."""
