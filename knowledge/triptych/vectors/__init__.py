"""Vectors of every kind: which texts wait for theirs, what makes them, and how they come."""
