"""Layers that stay true: a plan of what is stale and what it costs, and carrying it out."""
