from __future__ import annotations

import random
import sys

import pytest

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


def test_rjieba_and_jieba_give_the_same_words() -> None:
    rng = random.Random(7)
    common = [chr(code) for code in range(0x4E00, 0x9FD6)]
    rare = [chr(code) for code in (*range(0x3400, 0x3480), *range(0x20000, 0x20080))]
    texts = TEXTS + [
        "".join(rng.choice(rare if rng.random() < 0.05 else common) for _ in range(12))
        for _ in range(500)
    ]
    for size in (2, 3, 4):
        texts += ["".join(rng.choice(TEXTS[:5])[place : place + size] for place in range(6))]
    slow, fast = _pure_python_segmenter(), chinese_segmenter()
    assert [fast(text) for text in texts] == [slow(text) for text in texts]


def test_without_rjieba_the_pure_python_segmenter_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rjieba", None)
    assert chinese_segmenter.__wrapped__()("南京市长江大桥") == ["南京市", "长江大桥"]


def test_without_any_segmenter_the_error_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "rjieba", None)
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(ModuleNotFoundError, match="install rjieba"):
        chinese_segmenter.__wrapped__()


@pytest.mark.parametrize("run", ["東京大学で", "コンピュータ", "한국", "ไทย"])
def test_what_is_not_chinese_has_no_chinese_words(run: str) -> None:
    assert chinese_words(run) == []
