"""The workflow that publishes: no right that a job does not need, and no action that can change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
FILE = ROOT / ".github" / "workflows" / "release.yml"
TEXT = FILE.read_text(encoding="utf-8")
JOBS: dict[str, Any] = yaml.safe_load(TEXT)["jobs"]

RIGHTS = {
    "build": {"contents": "read"},
    "wheels": {},
    "gate": {"contents": "read"},
    "attest": {"id-token": "write", "attestations": "write"},
    "draft": {"contents": "write"},
    "publish": {"id-token": "write"},
}


def test_every_action_is_pinned_by_hash_with_its_version() -> None:
    used = re.findall(r"uses: (.*)", TEXT)
    assert len(used) > 10
    pinned = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [each for each in used if not pinned.fullmatch(each)] == []
    assert len({each.partition("@")[0] for each in used}) == len(set(used))


def test_each_job_has_its_rights_and_no_other() -> None:
    assert yaml.safe_load(TEXT)["permissions"] == {}
    assert {name: job.get("permissions", {}) for name, job in JOBS.items()} == RIGHTS
    assert "secrets." not in TEXT


def test_nothing_is_published_that_was_not_used_or_by_who_builds() -> None:
    for name in ("attest", "draft", "publish"):
        assert "github.ref_type == 'tag'" in JOBS[name]["if"]
        assert JOBS[name]["needs"] == ("gate" if name == "attest" else "attest")
        assert [each for each in JOBS[name]["steps"] if "checkout" in each.get("uses", "")] == []
    assert JOBS["publish"]["environment"] == {"name": "publish"}
    assert JOBS["gate"]["needs"] == ["build", "wheels"]
    checkouts = re.findall(
        r"uses: actions/checkout.*\n +with:\n +persist-credentials: false\n", TEXT
    )
    assert len(checkouts) == TEXT.count("actions/checkout@")


def test_a_tag_that_is_not_ready_is_refused_before_anything_is_built() -> None:
    steps = [str(each.get("run", "")) for each in JOBS["build"]["steps"]]
    (refused,) = [number for number, each in enumerate(steps) if "artifacts.py ready" in each]
    (built,) = [number for number, each in enumerate(steps) if "artifacts.py build" in each]
    assert refused < built
