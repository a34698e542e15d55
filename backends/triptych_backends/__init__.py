"""Backends behind Triptych's contracts."""
