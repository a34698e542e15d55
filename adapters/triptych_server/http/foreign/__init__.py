"""The APIs of other products, so that their clients work unchanged."""
