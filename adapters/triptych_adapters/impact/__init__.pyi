"""The names of `triptych_adapters.impact`, each with the module that defines it."""

from triptych_adapters.impact.changes import (
    Change as Change,
    Changed as Changed,
    ChangeKind as ChangeKind,
)
from triptych_adapters.impact.findings import (
    LEAST as LEAST,
    Finding as Finding,
    Impact as Impact,
    impact as impact,
)
from triptych_adapters.impact.git import GitReader as GitReader, git_impact as git_impact
from triptych_adapters.impact.sources import Source as Source
from triptych_adapters.impact.stores import (
    changes_impact as changes_impact,
    version_impact as version_impact,
)
