"""Any series of puts: the history is the last so many versions, whatever they share."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from support.examples import examples
from triptych.derivation.versions import unified_diff
from triptych.records import NewDocument, SourceDocument
from triptych_backends.filesystem import FilesStore
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore
from triptych_testing.builders import loaded

pytestmark = pytest.mark.property

TEXTS = st.sampled_from(["", "one", "two\r\n", "鱼\0\ufeff", "x" * 20_000]) | st.text(max_size=12)
PUTS = st.lists(st.tuples(TEXTS, st.sampled_from(["", "x"]), st.booleans()), max_size=12)
LINES = st.lists(
    st.sampled_from(["a", "b", "\n", "\n", "\r", "-", "+", "\\", "@@ -1 +1 @@\n", "\u2028", "\x85"])
).map("".join)
NUMBERS = itertools.count()


@pytest.mark.parametrize("kind", ["memory", "sqlite", "files"])
@settings(
    deadline=None,
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(puts=PUTS, most=st.integers(0, 4))
def test_history_is_the_last_versions(
    kind: str, tmp_path: Path, puts: list[tuple[str, str, bool]], most: int
) -> None:
    place = tmp_path / str(next(NUMBERS))
    store: Any = (
        MemoryStore(history=most)
        if kind == "memory"
        else (SqliteStore if kind == "sqlite" else FilesStore).open(place, history=most)
    )
    made: list[SourceDocument] = []
    batch: list[NewDocument] = []
    for content, tag, together in puts:
        batch.append(NewDocument(name="a", content=content, metadata={"tag": tag}))
        if not together:
            made += [it.document for it in store.documents.put_many("d", batch)]
            batch = []
    made += [it.document for it in store.documents.put_many("d", batch)]
    versions = list({document.version: document for document in made}.values())[::-1]
    wanted = versions[: most + 1]
    infos = store.documents.versions("d", "a")
    assert [store.documents.get_version("d", "a", info.version) for info in infos] == wanted
    for document in versions[most + 1 :]:
        assert store.documents.get_version("d", "a", document.version) is None
    store.close()


def applied(old: str, diff: str) -> str:
    """What ``patch`` makes of ``old``."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", old)
    made: list[str] = []
    done, put = 0, False
    for line in diff.split("\n")[2:-1]:
        if found := re.match(r"@@ -(\d+)(?:,(\d+))? ", line):
            begin = int(found[1]) - (found[2] != "0")
            made += lines[done:begin]
            done = begin
        elif line.startswith("\\"):
            if put:
                made[-1] = made[-1].removesuffix("\n")
        else:
            put = line[0] != "-"
            done += line[0] != "+"
            made += [f"{line[1:]}\n"] * put
    return "".join([*made, *lines[done:]])


@given(LINES, LINES)
def test_a_diff_makes_the_new_text_of_the_old(old: str, new: str) -> None:
    before = attrs.evolve(loaded(1, old), metadata={})
    after = attrs.evolve(loaded(2, new), metadata={})
    diff = unified_diff(before, after)
    assert (diff == "") is (old == new)
    assert applied(old, diff) == new
