"""The APIs of other products, each in its own form: clients of theirs work unchanged."""
