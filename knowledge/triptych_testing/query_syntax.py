"""Conformance of the query language: phrases, exclusions, prefixes and fields, in every lane."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import product

import attrs
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from triptych.contracts import Store
from triptych.errors import ValidationError
from triptych.records import Hit, MetadataValue, Mode, NewDocument
from triptych.service import Service
from triptych_testing.fakes import FakeEmbedder
from triptych_testing.harness import HarnessTests, failures, or_skip
from triptych_testing.work import serve

WORDS = ("storm", "storms", "stormy", "tide", "tides", "ferry", "late", "harbour")
_ALL = 10_000

TEXTS = {
    "a.md": "The ferry is late. A storm, a tide.",
    "b.md": "late is the ferry\n\n## Storms\n\nStormy tides: **the** _ferry_.",
    "c.md": "Ferry\n  IS\n  LATE: harbour",
    "d.md": "The harbour is late.",
}


@attrs.frozen
class Asked:
    """A query of the language, and what a text must hold to be found by it."""

    words: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...] = ()
    excluded: tuple[tuple[str, ...], ...] = ()
    prefix: str = ""

    def __str__(self) -> str:
        parts = list(self.words)
        parts += [f'"{" ".join(phrase)}"' for phrase in self.phrases]
        parts += [f'-"{" ".join(phrase)}"' for phrase in self.excluded]
        return " ".join([*parts, f"{self.prefix}*"] if self.prefix else parts)

    def admits(self, text: str) -> bool:
        found = re.findall(r"[a-z]+", text.lower())
        return (
            all(_holds(found, phrase) for phrase in self.phrases)
            and not any(_holds(found, phrase) for phrase in self.excluded)
            and (not self.prefix or any(word.startswith(self.prefix) for word in found))
        )

    def plain(self, texts: Sequence[str]) -> str:
        """The words that rank, as a query without the language."""
        words = [*self.words, *(word for phrase in self.phrases for word in phrase)]
        if self.prefix:
            found = {word for text in texts for word in re.findall(r"[a-z]+", text.lower())}
            words += [self.prefix, *sorted(w for w in found if w.startswith(self.prefix))]
        return " ".join(words)


def _holds(words: Sequence[str], phrase: Sequence[str]) -> bool:
    width = len(phrase)
    return any(
        tuple(words[at : at + width]) == tuple(phrase) for at in range(len(words) - width + 1)
    )


_word = st.sampled_from(WORDS)
_phrase = st.lists(_word, min_size=1, max_size=2).map(tuple)
ASKED = st.builds(
    Asked,
    words=st.lists(_word, min_size=1, max_size=3).map(tuple),
    phrases=st.lists(_phrase, max_size=2).map(tuple),
    excluded=st.lists(_phrase, max_size=2).map(tuple),
    prefix=st.sampled_from(("", "", "sto", "tid")),
)
CORPUS = st.lists(st.lists(_word, min_size=1, max_size=6).map(" ".join), min_size=1, max_size=6)


def found(hits: Sequence[Hit]) -> list[str]:
    """The names of the documents, sorted."""
    return sorted(hit.doc_name for hit in hits)


_CONDITIONS: dict[str, list[str]] = {
    '"ferry is late"': ["a.md", "c.md"],
    'harbour "ferry is late"': ["a.md", "c.md"],
    '"FERRY is late" -storm': ["c.md"],
    'ferry -"is late"': ["b.md"],
    "ferry -late -stormy": [],
    "ferry tid*": ["a.md", "b.md"],
    '"the ferry"': ["a.md", "b.md"],
    "ferry -ferry -harbour": [],
    "stormy*": ["b.md"],
    "ferry harbour -storm* in:c": ["c.md"],
    "ferry harbour -storm* -harbour": [],
    "ferry in:c.": ["c.md"],
    "ferry kind:log": ["a.md", "c.md"],
    'ferry kind:log kind:"two words"': ["a.md", "b.md", "c.md"],
    "ferry name:a.md kind:none": [],
}
"""Queries, and the documents that each finds in every mode."""


class QuerySyntaxTests(HarnessTests):
    """A query of the language finds what its words find, without what its conditions refuse."""

    @pytest.fixture
    def searched(self, store: Store) -> Iterator[Service]:
        with serve(store, FakeEmbedder()) as kb:
            yield kb

    def test_signs_are_words_unless_syntax_is_asked_for(self, searched: Service) -> None:
        searched.put_documents("d", TEXTS)
        plain = searched.search("ferry -late", dataset_id="d", mode="bm25")
        assert plain == searched.search("ferry late", dataset_id="d", mode="bm25")

    def test_conditions_hold_in_every_lane(self, searched: Service) -> None:
        kinds = {"a.md": "log", "b.md": "two words", "c.md": "log"}
        searched.put_documents(
            "d",
            [
                NewDocument(name=name, content=text, metadata={"kind": kinds.get(name, "other")})
                for name, text in TEXTS.items()
            ],
        )

        def holds(row: tuple[str, Mode]) -> None:
            query, mode = row
            result = searched.search(query, dataset_id="d", mode=mode, syntax=True)
            assert set(found(result.hits)) == set(_CONDITIONS[query])
            for top_k in (1, 2):
                fewer = searched.search(query, dataset_id="d", mode=mode, syntax=True, top_k=top_k)
                assert len(fewer.hits) == min(top_k, len(result.hits))

        assert failures(product(_CONDITIONS, Mode), holds) == []

    def test_a_rare_phrase_is_found_among_many(self, searched: Service) -> None:
        texts = {f"n{number:03}": "ferry ferry harbour storm" for number in range(300)}
        texts["rare"] = "a long text about a storm and, at its end, the harbour ferry of old"
        searched.put_documents("d", texts)
        for mode in Mode:
            for query in ('ferry storm "harbour ferry"', 'ferry storm -"ferry ferry"'):
                result = searched.search(query, dataset_id="d", mode=mode, syntax=True, top_k=3)
                assert found(result.hits) == ["rare"], (mode, query)
                assert result.exhausted

    def test_whole_documents_and_layers_are_held_to_the_conditions(self, searched: Service) -> None:
        or_skip(searched.capabilities.document_search)
        filler = "\n\n".join(f"## Part {n}\n\nThe harbour of old, part {n}." for n in range(300))
        searched.put_documents("d", {"a": f"ferry\n\n{filler}\n\nstorm tide", "b": "ferry storm"})
        for mode in Mode:
            whole = searched.search_documents(
                'ferry "storm tide"', dataset_id="d", mode=mode, syntax=True
            )
            assert found(whole.hits) == ["a"]
            none = searched.search_documents(
                "ferry -tide -storm", dataset_id="d", mode=mode, syntax=True
            )
            assert none.hits == ()
        for name, text in (("a", "ferry and storm"), ("b", "ferry and tide")):
            searched.put_document_layer("d", name, "L0", text)
        for query, names in (("ferry -tide", ["a"]), ('storm "and tide"', ["b"])):
            layers = searched.search(query, dataset_id="d", layer="L0", syntax=True)
            assert found(layers.hits) == names

    def test_what_only_narrows_is_refused(self, searched: Service) -> None:
        searched.put_documents("d", TEXTS)
        for query in ("-late", "kind:log", '-"a b" in:x'):
            with pytest.raises(ValidationError, match="add a word or a phrase"):
                searched.search(query, dataset_id="d", syntax=True)

    def test_a_field_finds_values_of_every_kind(self, searched: Service) -> None:
        kinds: dict[str, MetadataValue] = {
            "n": 2024,
            "x": 1.5,
            "b": True,
            "d": date(2024, 5, 1),
            "t": "2024",
            "s": ">=3",
            "l": ["tea", 7],
            "teapot": "a teapot",
        }
        for name, value in kinds.items():
            searched.put_document("d", name, "ferry", {"k": value})
        for asked, names in (
            ("2024", {"n", "t"}),
            ("1.5", {"x"}),
            ("true", {"b"}),
            ("2024-05-01", {"d"}),
            (">=3", {"s"}),
            ("tea", {"l"}),
            ("7", {"l"}),
            ("nothing", set()),
        ):
            hits = searched.search(f"ferry k:{asked}", dataset_id="d", syntax=True).hits
            assert {hit.doc_name for hit in hits} == names, asked

    def test_a_field_and_a_filter_must_both_hold(self, searched: Service) -> None:
        searched.put_documents("d", TEXTS)
        where = {"doc_name": ["a.md", "b.md"]}
        for query, names in (("ferry name:b.md", {"b.md"}), ("ferry name:c.md", set())):
            result = searched.search(query, dataset_id="d", where=where, syntax=True)
            assert {hit.doc_name for hit in result.hits} == names
        assert "quotes" in result.warnings[-1]

    @pytest.mark.property
    def test_it_finds_what_a_plain_search_and_a_plain_check_find(self, searched: Service) -> None:
        @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(texts=CORPUS, asked=ASKED, top_k=st.integers(1, 4))
        def compare(texts: list[str], asked: Asked, top_k: int) -> None:
            searched.delete_dataset("d")
            searched.put_documents("d", {f"n{at}": text for at, text in enumerate(texts)})
            for mode in (Mode.BM25, Mode.VECTOR):
                plain = asked.plain(texts) if mode == Mode.BM25 else asked.plain(())
                every = searched.search(plain, dataset_id="d", mode=mode, top_k=_ALL).hits
                wanted = [(hit.doc_name, hit.score) for hit in every if asked.admits(hit.content)]
                result = searched.search(
                    str(asked), dataset_id="d", mode=mode, syntax=True, top_k=top_k
                )
                assert [(hit.doc_name, hit.score) for hit in result.hits] == wanted[:top_k]
            hybrid = searched.search(str(asked), dataset_id="d", syntax=True, top_k=_ALL)
            admitted = [f"n{at}" for at, text in enumerate(texts) if asked.admits(text)]
            assert found(hybrid.hits) == admitted

        compare()
