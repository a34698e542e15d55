"""A purge on PostgreSQL is killed between its statements: one that returned stays done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

import triptych
from support import purge_script
from support.postgres import PostgresServer

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="no kill"), pytest.mark.process]

KILLS = 8


def run(url: str, number: int, last: int) -> tuple[int, list[str]]:
    """Purge two documents in a process, and what it said; it is killed at a statement."""
    names = [f"zqfirst{number}", f"zqsecond{number}"]
    with triptych.open(url, embedder="hash") as kb:
        for name in names:
            kb.put_document("d", name, f"# Once\n\nThe old {name} here.\n")
            kb.put_document("d", name, f"# {name}\n\nThe {name} sat there.\n", {"by": name})
            kb.put_document_layer("d", name, "L0", f"About a {name}.")
    ran = subprocess.run(
        [sys.executable, purge_script.__file__, url, *names, str(last)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    return ran.returncode, ran.stdout.split()


def test_killed_at_statements_spread_over_all(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    with triptych.open(postgres_url, embedder="hash") as kb:
        kb.put_document("d", "kept", "# Kept\n\nThe kettle sings.\n")
        kept = kb.get_document("d", "kept")
    code, said = run(postgres_url, 0, 0)
    assert (code, said[:2]) == (0, ["zqfirst0", "zqsecond0"])
    statements = int(said[2])
    assert statements > KILLS
    for number in range(1, KILLS + 1):
        last = 1 + (number - 1) * (statements - 1) // (KILLS - 1)
        code, said = run(postgres_url, number, last)
        assert (code, said) == (-signal.SIGKILL, [f"zqfirst{number}"])
        first, second = f"zqfirst{number}", f"zqsecond{number}"
        assert postgres_server.holders(first) == []
        with triptych.open(postgres_url, embedder="hash") as kb:
            names = [each.name for each in kb.list_documents("d")]
            assert names in (["kept"], ["kept", second])
            if second in names:
                assert kb.search(second, mode="bm25", dataset_id="d").hits
                assert len(kb.history("d", second)) == 2
            assert kb.doctor().clean
            assert kb.purge("d", second).existed is (second in names)
            assert postgres_server.holders(first, second) == []
            assert kb.get_document("d", "kept") == kept
            assert kb.doctor().clean
