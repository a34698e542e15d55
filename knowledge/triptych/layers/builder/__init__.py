"""Building layers: planning which are stale and what they cost, and generating them."""
