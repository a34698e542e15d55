"""Leases of work: of several workers on one store, one has a text, or a document, at a time."""

from triptych.leases.holder import LEASE, LeaseHolder
from triptych.leases.settings import LEASES, SettingsLeases

__all__ = ["LEASE", "LEASES", "LeaseHolder", "SettingsLeases"]
