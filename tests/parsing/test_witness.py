"""The comparison of a text with a plain reading of its file, and how what is lost is kept."""

import attrs
from hypothesis import given, strategies as st

import triptych
from triptych.parsing import (
    ContentBuilder,
    FileParsers,
    Locator,
    Omission,
    ParsedFile,
    TextParser,
    Unread,
    Witness,
)

SENTENCES = st.lists(
    st.sampled_from(["the", "quick", "Über", "fox's", "3.14", "東京都", "ﬁne", "naïve"])
)


@given(SENTENCES, st.randoms(use_true_random=False))
def test_a_text_in_any_order_loses_nothing(words, random):
    mixed = list(words)
    random.shuffle(mixed)
    assert Witness("\n".join(mixed).upper()).lost(" ".join(words)) == []


@given(SENTENCES, SENTENCES)
def test_what_a_text_lacks_is_counted_at_its_place(kept, gone):
    witness = Witness(" ".join(kept))
    assert witness.omission("page 1", " ".join(kept), "x") is None
    missing = witness.lost(" ".join(gone))
    assert missing == Witness("").lost(" ".join(gone))


def test_line_ends_and_invisible_characters_are_no_difference():
    assert Witness("東京\n都 co\u00adoperate").lost("東 京都 cooperate") == []


def test_an_omission_says_where_how_many_and_why():
    found = Witness("the text").omission("page 7", "The Text of Acme Ltd", "footer on each page")
    assert found == Omission(
        place="page 7", words=3, reason="footer on each page", example="of acme ltd"
    )
    assert str(found) == "page 7: 3 words are not searched (footer on each page)"
    assert str(attrs.evolve(found, words=1)).startswith("page 7: 1 word is not")
    assert str(Omission(place="page 2", words=0, reason="it is a picture")) == (
        "page 2: it is a picture"
    )


class Lossy:
    """Reads the first line only, and says what it left out."""

    signature = "lossy/1"
    endings = frozenset((".lossy",))
    omissions: tuple[Omission, ...] = ()

    def recognises(self, data):
        return False

    def parse(self, name, data):
        first, _, rest = data.decode().partition("\n")
        omission = Witness(first).omission("the rest", rest, "not the first line")
        return ParsedFile(
            content=first, omissions=self.omissions or ((omission,) if omission else ())
        )


def parsers(**changed):
    lossy = Lossy()
    for name, value in changed.items():
        setattr(lossy, name, value)
    return FileParsers([lossy], fallback=TextParser())


def test_what_is_left_out_is_in_the_notes_and_kept_with_the_document():
    parsed = parsers().parse("a.lossy", b"first line\nkeystone words")
    said = "the rest: 2 words are not searched (not the first line)"
    assert parsed.notes == (f"'a.lossy': {said}",)
    with triptych.open("memory://", embedder=None) as kb:
        kb.put_documents("d", [parsed.document("a.lossy")])
        unread = kb.list_documents("d")[0].system.unread
        assert str(unread) == said
        kb.put_document("d", "a.lossy", "written by hand")
        assert not kb.list_documents("d")[0].system.unread


def test_a_file_that_gives_nothing_says_so():
    parsed = parsers().parse("a.lossy", b"\nwords")
    assert parsed.no_text
    assert "no text" in parsed.notes[0]
    assert not parsers().parse("a.lossy", b" \n").no_text


def test_a_builder_hands_on_what_it_is_told():
    builder = ContentBuilder("a", 100)
    left = Omission(place="p", words=1, reason="r")
    parsed = builder.parsed("x/1", omissions=[left], no_text="why")
    assert (parsed.omissions, parsed.no_text) == ((left,), "why")


COUNTS = st.lists(st.integers(0, 10**6), max_size=120)


@given(COUNTS, st.text(max_size=20), st.text(max_size=20))
def test_all_words_are_kept_however_many_places_there_are(counts, place, reason):
    omissions = tuple(
        Omission(place=f"{place}{at}", words=words, reason=reason)
        for at, words in enumerate(counts)
    )
    parsed = ParsedFile(
        content="text", omissions=omissions, locators=(Locator(start=0, end=4, unit="x", number=1),)
    )
    kept = triptych.records.SystemData(outline=parsed.outline).unread
    assert len(kept.omissions) <= 50
    assert sum(each.words for each in kept.omissions) == sum(counts)
    if len(counts) <= 50:
        assert kept == Unread(omissions=omissions)


def test_a_title_that_looks_like_an_omission_is_none():
    for outline in ('{"parts":["\\"unread\\":[1"]}', '{"unread":[1]}', '"unread":['):
        assert not triptych.records.SystemData(outline=outline).unread
