"""Search: a query is judged, its lanes run in parallel, a ranker fuses them."""
