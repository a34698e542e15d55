from __future__ import annotations

import marshal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from support.examples import examples
from support.rows import each_row
from triptych.text.words import _pure_python_segmenter, chinese_segmenter, chinese_words

TEXTS = [
    "南京市长江大桥",
    "我来到北京清华大学",
    "他来到了网易杭研大厦",
    "工信处女干事每月经过下属科室都要亲口交代二十四口交换机等技术性器件的安装工作",
    "結婚的和尚未結婚的確實在幹擾這個決定",
    "𠮷野家〇々〆三",
    "鑫龘靐齉爩",
    "中",
    "",
]


@pytest.fixture(scope="module")
def slow() -> Callable[[str], list[str]]:
    return _pure_python_segmenter()


@cache
def dictionary() -> list[str]:
    """jieba's words."""
    import jieba

    with jieba.get_dict_file() as lines:
        return [line.decode().split(" ")[0] for line in lines]


RUNS = st.lists(
    st.one_of(
        st.deferred(lambda: st.sampled_from(dictionary())),
        st.deferred(lambda: st.sampled_from(dictionary())).map(lambda word: word[:-1]),
        st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF),
        st.characters(min_codepoint=0x3400, max_codepoint=0x323AF, categories=["Lo"]),
        st.characters(categories=["Lo", "Lm", "Mn", "Mc", "Nl"]),
        st.sampled_from(TEXTS),
    ),
    max_size=12,
).map("".join)
"""Runs of words, of words cut off, and of characters that no dictionary has."""


@pytest.mark.property
@settings(max_examples=examples(500))
@given(run=RUNS)
def test_rjieba_and_jieba_give_the_same_words(slow: Callable[[str], list[str]], run: str) -> None:
    assert chinese_segmenter()(run) == slow(run)


def test_rjieba_and_jieba_have_the_same_dictionary(slow: Callable[[str], list[str]]) -> None:
    fast = chinese_segmenter()
    # Words of one character too: which of them are known decides where others are cut.
    for word in (*dictionary()[::29], *(chr(each) for each in range(0x3400, 0xA000))):
        assert fast(f"中{word}国") == slow(f"中{word}国")


@pytest.mark.parametrize("name", ["rjieba", "jieba"])
def test_words_that_a_program_adds_change_no_term(name: str) -> None:
    program = (
        "import importlib, sys\n"
        "sys.modules['rjieba' if sys.argv[1] == 'jieba' else 'jieba'] = None\n"
        "jieba = importlib.import_module(sys.argv[1])\n"
        "jieba.add_word('南京市长江大桥', 10**8, None)\n"
        "from triptych.text.words import index_terms\n"
        "print(*index_terms('南京市长江大桥'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, name], capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-2:] == ["南京市", "长江大桥"]


def test_without_rjieba_the_pure_python_segmenter_serves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """And takes no dictionary that somebody left in the folder for temporary files."""
    (tmp_path / "jieba.cache").write_bytes(marshal.dumps(({"南": 1}, 1)))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setitem(sys.modules, "rjieba", None)
    assert chinese_segmenter.__wrapped__()("南京市长江大桥") == ["南京市", "长江大桥"]
    assert capfd.readouterr().err == ""
    assert [each.name for each in tmp_path.iterdir()] == ["jieba.cache"]


def test_without_any_segmenter_the_error_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "rjieba", None)
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(ModuleNotFoundError, match="install rjieba"):
        chinese_segmenter.__wrapped__()


@each_row("run", ["東京大学で", "コンピュータ", "한국", "ไทย"])
def test_what_is_not_chinese_has_no_chinese_words(run: str) -> None:
    assert chinese_words(run) == []
