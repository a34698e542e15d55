"""Searches of the past, in a store filled from the kept versions."""
