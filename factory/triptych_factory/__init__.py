"""Settings to a wired Service."""
