"""What a reader sees of reStructuredText is in its text, or named."""

from __future__ import annotations

import time

import pytest

from support.rows import each_row
from triptych.chunking import HEADINGS, heading_text, scan
from triptych.parsing import ParsedFile, RestructuredTextParser


def parse(text: str) -> ParsedFile:
    parsed = RestructuredTextParser().parse("a.rst", text.encode())
    assert parsed is not None
    return parsed


def content(text: str) -> str:
    return parse(text).content.rstrip("\n")


def headings(text: str) -> list[str]:
    made = parse(text).content
    return [heading_text(made, start, end) for kind, start, end in scan(made) if kind in HEADINGS]


@each_row("ticks", ["```", "````", "~~~", "``````"])
@each_row("opening", [".. code-block:: markdown", "Text::", "* .. code:: markdown"])
def test_what_is_in_a_code_block_does_not_end_it(ticks: str, opening: str) -> None:
    text = (
        f"Guide\n=====\n\n{opening}\n\n     {ticks}sh\n     # install\n     {ticks}\n"
        "     # no title\n\nAfter\n-----\n\nThe end.\n"
    )
    assert headings(text) == ["Guide", "After"]
    assert f"{ticks}sh\n" in content(text)


def test_comments_are_no_headings_and_say_nothing() -> None:
    text = (
        "Guide\n=====\n\n.. hidden\n   Hidden\n   ------\n\n   # hidden too\n\n"
        "..\n   hidden\n\n..\n\n   Shown quote.\n\n- item\n\n  .. hidden\n\nAfter\n-----\n"
    )
    assert headings(text) == ["Guide", "After"]
    assert "Shown quote." in content(text)
    assert "hidden" not in content(text).lower()
    assert parse(text).omissions == ()


@each_row(
    ("text", "shown"),
    [
        (".. warning:: Hot.", "Warning: Hot."),
        (".. Danger::\n\n   Hot.", "Danger:\n\nHot."),
        (".. seealso:: The other page.", "See also: The other page."),
        (".. versionchanged:: 3.5\n   Faster.", "Changed in version 3.5\n\nFaster."),
        (".. admonition:: By the way\n\n   Text.", "By the way\n\nText."),
        (".. image:: a.png\n   :width: 3\n   :alt: A red kettle", "a.png A red kettle"),
        (".. figure:: a.png\n   :alt: Red\n\n   Below.", "a.png Red\n\nBelow."),
        (".. code:: sh\n   :caption: Run it\n\n   ls", "Run it\n\n```sh\nls\n```"),
        (".. toctree::\n   :caption: Parts\n\n   a\n   Two <b>", "Parts Two"),
        ("- item\n\n  .. note:: Hot.", "- item\n\nNote: Hot."),
        ("- item::\n\n    code\n\n  more", "- item:\n\n```\ncode\n```\n\nmore"),
        ("term\n  means::\n\n    code\n\n  more", "term\n  means:\n\n```\ncode\n```\n\nmore"),
        (":Author: Ada\n:Year: 1843", ":Author: Ada\n:Year: 1843"),
        ("See [1]_.\n\n.. [1] A note.\n   More.", "See [1].\n\n[1] A note.\n\nMore."),
        ("|p| by |who|\n\n.. |p| replace:: Triptych\n   SDK", "Triptych SDK by |who|"),
        (".. |c| unicode:: 0xA9 U+00AE .. signs\n\n|c| 2024", "\xa9\xae 2024"),
        ("|i|\n\n.. |i| image:: a.png\n   :alt: An icon", "An icon"),
        ("See :pep:`8`, :rfc:`2822` and :issue:`7`.", "See PEP 8, RFC 2822 and `7`."),
        (
            "A `phrase reference`_ and name_, `site <http://x>`__.",
            "A phrase reference and name, site.",
        ),
        ("``a_b_`` and __init__ and \\_x and x\\ :sub:`2`", "`a_b_` and __init__ and \\_x and x2"),
        ("The `\\<danger>`_ element", "The \\<danger> element"),
        (":py:meth:`~a.b.c` and :ref:`text <place>`", "`a.b.c` and text"),
        ("===== =====\nA     B\n===== =====\n1     2\n===== =====", None),
        ("+---+---+\n| a | b |\n+---+---+", None),
        ('.. csv-table:: Prices\n   :header: "Item", "Cost"\n\n   "Tea", 3', None),
        (
            ".. list-table::\n\n   * - Item\n     - Cost\n   * - Tea\n     - 3",
            None,
        ),
    ],
)
def test_what_a_reader_sees_is_kept(text: str, shown: str | None) -> None:
    parsed = parse(f"{text}\n")
    if shown is not None:
        assert parsed.content.rstrip("\n") == shown
    else:
        kept = parsed.content.replace("\\", "")
        assert all(word in kept for word in text.split() if word.strip('",').isalnum())
    assert parsed.omissions == ()


def test_words_of_raw_directives_are_named() -> None:
    text = (
        "Text.\n\n.. raw:: html\n\n   <style>\n   p { color: red }\n   </style>\n"
        "   <p class='x'>Shown <b>there</b></p>\n\n.. meta::\n   :description: hidden\n"
    )
    assert [str(each) for each in parse(text).omissions] == [
        "line 3: 2 words are not searched (raw directive)"
    ]


def test_the_witness_does_not_believe_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triptych.parsing.rst._fenced", lambda lines, language: "")
    (found,) = parse("Text::\n\n   quokka beam\n\nMore quokka.\n").omissions
    assert (found.place, found.words, found.example) == ("line 3", 2, "quokka beam")


@each_row(
    "text",
    [
        "\n".join(" " * depth + ".. note:: x" for depth in range(1500)),
        *("``" * 50_000, "`" * 100_000, "|a" * 50_000, "a_" * 50_000, "_" * 100_000),
        *("a" * 100_000, "\\" * 100_000, ":a:`" * 30_000, "\\ " * 50_000, "`a" + " " * 100_000),
        *(f".. raw:: html\n\n   {tag * 20_000}" for tag in ("<style", "<style>", "<", "<a>")),
        ".. |a| replace:: " + "b " * 30_000 + "\n\n" + "|a| " * 2_000,
    ],
)
def test_hostile_text_takes_no_time(text: str) -> None:
    start = time.monotonic()
    parse(text)
    assert time.monotonic() - start < 10
