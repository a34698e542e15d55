"""Git repositories and web sites as sources of a sync, and those that a store remembers."""

from triptych_sources.git import GitSource, is_git
from triptych_sources.remembered import RememberedSource, RememberedSources, open_source
from triptych_sources.web import WebSource

__all__ = [
    "GitSource",
    "RememberedSource",
    "RememberedSources",
    "WebSource",
    "is_git",
    "open_source",
]
