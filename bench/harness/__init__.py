"""The benchmark harness: one corpus, one way to measure, one module a system."""
