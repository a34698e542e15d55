"""Which sentences of other documents a change makes untrue: names, values, numbers and paths that
it removed or replaced, and where they are still held. No model is asked."""

from triptych_impact.changes import Change, Changed, ChangeKind
from triptych_impact.findings import LEAST, Finding, Impact, impact
from triptych_impact.git import GitReader, git_impact
from triptych_impact.sources import Source
from triptych_impact.stores import changes_impact, version_impact

__all__ = [
    "LEAST",
    "Change",
    "ChangeKind",
    "Changed",
    "Finding",
    "GitReader",
    "Impact",
    "Source",
    "changes_impact",
    "git_impact",
    "impact",
    "version_impact",
]
