"""Edits at random against a plain model: what a plan says, what it costs, and what is left."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import pytest
from hypothesis import example, given, settings, strategies as st

import triptych
from support.examples import examples
from triptych.contracts import pages_of
from triptych.derivation.folder_tree import (
    FolderWalk,
    children,
    children_of,
    folder_inputs,
    is_folder,
)
from triptych.layers import LayerBuilder
from triptych.layers.builder.generators import lines_in_parts, text_in_parts
from triptych.records import DocumentSummary, Layer
from triptych.signatures import SummariesDigest, summaries_input_sig
from triptych_testing.fakes import FakeLLM

pytestmark = pytest.mark.property

NAMES = ("a", "a!", "a/b", "a/b/c", "a/b0", "a/c/d", "b/x", "b/y/z", "é/ä", "/r", "q//s")
names = st.sampled_from(NAMES)
# The first line alone decides an abstract: "x\n1" and "x\n2" are told alike.
contents = st.sampled_from(["x\n1", "x\n2", "y\n1", "z"])
edits = st.lists(
    st.one_of(
        st.tuples(st.just("put"), names, contents),
        st.tuples(st.just("delete"), names, st.just("")),
        st.tuples(st.just("apply"), st.just(""), st.just("")),
    ),
    max_size=14,
)


def digest(*parts: str) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def abstract_of(prompt: str, text: str) -> str:
    if text.startswith("- "):
        return f"T {digest(text, prompt)}"
    return f"T {text.splitlines()[0]}"


def folders_of(documents: Iterable[str]) -> set[str]:
    found = {""}
    for name in documents:
        found |= {name[: at + 1] for at, character in enumerate(name) if character == "/"}
    return found


class Model:
    """What ought to be stored: for each name the input that its layers were made from."""

    def __init__(self) -> None:
        self.documents: dict[str, str] = {}
        self.made: dict[str, object] = {}
        self.said: dict[str, str] = {}

    def children(self, folder: str) -> tuple[tuple[str, str], ...]:
        around = [*self.documents, *folders_of(self.documents) - {""}]
        mine = [name for name in around if name[: name[:-1].rfind("/") + 1] == folder]
        return tuple(sorted((name, self.said[name]) for name in mine if name in self.said))

    def stale(self) -> set[str]:
        return {name for name, text in self.documents.items() if self.made.get(name) != text}

    def build(self) -> int:
        """Bring all up to date; how many names were made."""
        count = 0
        for name in self.stale():
            text = self.documents[name]
            self.made[name], self.said[name] = text, f"T {text.splitlines()[0]}"
            count += 1
        folders = folders_of(self.documents) if self.documents else set()
        for gone in {name for name in self.said if is_folder(name)} - folders:
            del self.said[gone], self.made[gone]
        for folder in sorted(folders, key=lambda each: -each.count("/")):
            children = self.children(folder)
            if self.made.get(folder) != children:
                self.made[folder] = children
                self.said[folder] = f"T {digest('folder', repr(children))}"
                count += 1
        return count


@settings(max_examples=examples(60), deadline=None)
@given(steps=edits)
@example(steps=[("put", "a", "x\n1"), ("apply", "", ""), ("delete", "a", ""), ("put", "a", "x\n1")])
# The folder a/b/ has an abstract, and nothing that is in it.
@example(
    steps=[
        ("put", "a/b/c", "x\n1"),
        ("apply", "", ""),
        ("delete", "a/b/c", ""),
        ("put", "a/b/c", "y\n1"),
    ]
)
def test_plans_and_their_costs_are_those_of_a_model(steps: list[tuple[str, str, str]]) -> None:
    llm, model = FakeLLM(abstract_of), Model()
    with triptych.open("memory://", embedder=None) as kb:
        kb.put_document("d", "always", "here")
        model.documents["always"] = "here"
        builder = LayerBuilder(kb, llm)
        for what, name, content in [*steps, ("apply", "", "")]:
            if what == "put":
                kb.put_document("d", name, content)
                model.documents[name] = content
            elif what == "delete":
                kb.delete_document("d", name)
                for known in (model.documents, model.made, model.said):
                    known.pop(name, None)  # type: ignore[attr-defined]  # all three are dicts
            else:
                plan = builder.plan("d")
                planned = {
                    item.doc_name
                    for item in plan
                    if not item.conditional and not is_folder(item.doc_name)
                }
                assert planned == model.stale()
                certain, possible = plan.cost.calls, plan.conditional_cost.calls
                before = len(llm.requests)
                report = builder.apply(plan, concurrency=2)
                calls = len(llm.requests) - before
                assert calls == report.calls == report.made == 2 * model.build()
                assert certain <= calls <= certain + possible
                assert not builder.plan("d")
                assert {layer.doc_name for layer in kb.layers("d")} == set(model.said)
                assert all(layer.stale is None for layer in kb.layers("d"))


def test_plan_counts_the_folders_of_a_document_that_was_blank() -> None:
    llm = FakeLLM(abstract_of)
    with triptych.open("memory://", embedder=None) as kb:
        kb.put_document("d", "a/b/c", "")
        builder = LayerBuilder(kb, llm)
        builder.apply(builder.plan("d"))
        assert llm.requests == []
        kb.put_document("d", "a/b/c", "x")
        plan = builder.plan("d")
        assert (plan.cost.calls, plan.conditional_cost.calls) == (2, 6)
        assert builder.apply(plan).calls == len(llm.requests) == 8


@pytest.mark.parametrize("page", [1, 2, 64])
@given(
    texts=st.dictionaries(names, st.none() | st.text(max_size=5)),
    folders=st.dictionaries(st.sampled_from(sorted(folders_of(NAMES))), st.text(max_size=5)),
)
def test_digests_of_one_walk_are_those_of_each_folder_by_itself(
    page: int, texts: dict[str, str | None], folders: dict[str, str]
) -> None:
    with pytest.MonkeyPatch.context() as patch, triptych.open("memory://", embedder=None) as kb:
        patch.setattr("triptych.derivation.folder_tree._NEAR_PAGE", page)
        kb.put_documents("d", dict.fromkeys(texts, "text"))
        told = {name: text for name, text in texts.items() if text is not None}
        for name, text in told.items():
            kb.put_document_layer("d", name, "L0", text)
        for folder, text in folders.items():
            if folder == "" and texts:
                kb.put_dataset_layer("d", "L0", text)
            elif any(name.startswith(folder) for name in texts):
                kb.put_folder_layer("d", folder, "L0", text)
        inputs = folder_inputs(pages_of(kb.layer_repo, "d", Layer.ABSTRACT))
        for folder in folders_of(texts) if texts else ():
            pages = pages_of(kb.layer_repo, "d", Layer.ABSTRACT, prefix=folder)
            below = children_of(pages, folder)
            assert children(kb.layer_repo, "d", folder) == below
            assert summaries_input_sig(below) in inputs.get(folder, [summaries_input_sig(())])
        flat = [DocumentSummary(name=name, abstract=text) for name, text in told.items()]
        assert summaries_input_sig(flat) in inputs[""]


@given(below=st.dictionaries(st.text(max_size=4), st.text(max_size=4)), order=st.randoms())
def test_order_of_children_does_not_count(below: dict[str, str], order: object) -> None:
    summaries = [DocumentSummary(name=name, abstract=text) for name, text in below.items()]
    taken = SummariesDigest()
    for name in sorted(below):
        taken.add(name, below[name])
    order.shuffle(summaries)  # type: ignore[attr-defined]  # a random.Random
    assert summaries_input_sig(summaries) == taken.result()


_WORDS = [
    "# Head\n",
    "\n\n",
    "word ",
    "日本語の文。",
    "é",
    "👩\u200d🔬",
    "\r\n",
    "## Two\n\n",
    "x" * 50,
]
pieces = st.lists(
    st.sampled_from(_WORDS),
    max_size=60,
).map("".join)


@given(text=pieces, limit=st.integers(8, 200))
def test_parts_are_the_whole_and_none_is_too_long(text: str, limit: int) -> None:
    parts = text_in_parts(text, limit)
    assert "".join(parts) == text.replace("\r\n", "\n").replace("\r", "\n")
    assert all(len(part.encode()) <= limit for part in parts)
    assert all(len(part.encode()) * 8 >= limit - 32 for part in parts[:-1])


@given(
    lines=st.lists(st.text("ab é", min_size=1, max_size=30), max_size=20), limit=st.integers(8, 60)
)
def test_lines_are_all_in_the_parts(lines: list[str], limit: int) -> None:
    parts = lines_in_parts(lines, limit)
    assert all(len(part.encode()) <= limit for part in parts)
    assert "".join("".join(parts).split()) == "".join("".join(lines).split())


def test_memory_of_a_walk_is_one_path() -> None:
    seen: list[tuple[str, int]] = []
    walk = FolderWalk(lambda folder: seen.append((folder.name, folder.children)) or False)
    for at in range(1000):
        walk.document(f"f/{at:04d}/doc", "text")
        assert len(walk._stack) == 3
    walk.close()
    assert seen[-2:] == [("f/", 0), ("", 0)]
    assert len(seen) == 1002
