"""Words are compared as a reader sees them: escapes, grouped digits, names with digits."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

import triptych
from support.rows import each_row
from triptych.text import CJKTokenizer, decode, get_analyzer, matches, snippet
from triptych.text.escapes import readings, views

PLAIN = get_analyzer("none")


@each_row(
    ("text", "shown"),
    [
        (
            r"my\_handler\_name in 2\.5\.1, C\+\+ and don\'t",
            "my_handler_name in 2.5.1, C++ and don't",
        ),
        (r"caf&eacute; of M&uuml;ller &#252;ber &#xFC;ber", "café of Müller über über"),
        ("AT&amp;T &amp;eacute; don&rsquo;t 10&times;20&nbsp;m", "AT&T &eacute; don’t 10×20\xa0m"),
        (r'"\u00dcber \u4e1c\u4eac \ud83d\ude00 \U0001f600 \u{1F600}"', '"Über 东京 😀 😀 😀"'),
        (r'"\xDCber" b"\xc3\xbcber" \u0026', '"Über" b"über" &'),
        # What is no escape, or has another meaning, stays.
        (r"\\u00dc \ud83d \uDC00 \x41 \U99999999", r"\u00dc \ud83d \uDC00 \x41 \U99999999"),
        (r"C:\new_dir\table C:\src\__init__.py", r"C:\new_dir\table C:\src\__init__.py"),
        (r"\alpha \frac{a}{b} \nabla x", r"\alpha \frac{a}{b} \nabla x"),
        (
            "p = &alpha; q = &order; &unknown; a && b; &;",
            "p = &alpha; q = &order; &unknown; a && b; &;",
        ),
        ("&alpha;-helix, 5&mu;m", "α-helix, 5μm"),
    ],
)
def test_escapes_are_read_as_their_characters(text: str, shown: str) -> None:
    assert decode(text) == shown
    if text != shown and not {"\\", "&"} & set(shown):  # which would be read once more
        assert PLAIN.analyze(text) == PLAIN.analyze(shown)
        assert CJKTokenizer().tokenize(text) == CJKTokenizer().tokenize(shown)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (r'"line\nnext\tone"', {"line", "nnext", "next", "tone", "one"}),
        (r"C:\new\table", {"c", "new", "ew", "table", "able"}),
        (r"$\nabla$ {\theta} x^\rho", {"nabla", "theta", "x", "rho"}),
    ],
)
def test_a_letter_after_a_backslash_that_may_end_a_line_is_read_in_both_ways(
    text: str, words: set[str]
) -> None:
    assert set(PLAIN.analyze(text)) == words


@each_row(
    ("written", "plain"),
    [
        ("29,125", "29125"),
        ("1,234,567.50", "1234567.50"),
        ("1'234'567", "1234567"),
        ("1_234_567", "1234567"),
        ("1.234.567", "1234567"),
    ],
)
def test_grouped_digits_are_also_one_number(written: str, plain: str) -> None:
    assert plain in PLAIN.analyze(written)
    assert plain in PLAIN.analyze_query(written)
    assert PLAIN.analyze(plain) == [plain]
    with triptych.open("memory://", embedder=None) as kb:
        kb.put_documents("d", {"written": f"It has {written} of them", "plain": f"It is {plain}."})
        for asked in (written, plain):
            for query in (asked, f'"{asked}"'):
                hits = kb.search(query, dataset_id="d", syntax=True).hits
                assert {hit.doc_name for hit in hits} == {"written", "plain"}, query
            excluding = kb.search(f'it -"{asked}"', dataset_id="d", syntax=True)
            assert not excluding.hits


@each_row("text", ["1\u202f234\u202f567", "1\xa0234\u2009567", "共1,234,567人", "$1,234,567!"])
def test_a_number_is_found_as_it_is_typed(text: str) -> None:
    assert ("1234567" in PLAIN.analyze(text)) == ("\xa0" not in text)
    assert {"234", "567"} <= set(PLAIN.analyze(text))


@each_row("text", ["3,4", "1,2345", "1234,567", "1.2.3", "1.234", "12,34,567", "a1,234", "10, 200"])
def test_other_digits_are_not_joined(text: str) -> None:
    digits = "".join(filter(str.isdigit, text))
    assert digits not in PLAIN.analyze(text)
    assert len(readings(text)) == 1


def test_the_parts_of_a_list_are_found_beside_what_may_be_a_number() -> None:
    assert PLAIN.analyze("100,200,300") == ["100200300", "100", "200", "300"]


NAMES = {
    "s3_bucket": "s3 bucket",
    "k8s_config": "k8s config",
    "S3Client": "s3 client",
    "e2e_tests": "e2e tests",
    "i18n_keys": "i18n keys",
    "utf8_decode": "utf8 utf decode",
    "base64url": "base64 base url",
    "sha256sum": "sha256 sha sum",
    "md5_hash": "md5 md hash",
    "http2_server": "http2 http server",
    "ipv6_addr": "ipv6 ipv addr",
    "x86_64": "x86 64",
    "arm64_build": "arm64 arm build",
    "v8_engine": "v8 engine",
    "h264_codec": "h264 codec",
    "p99_latency": "p99 latency",
    "t5_model": "t5 model",
    "w3c_spec": "w3c spec",
    "ec2_instance": "ec2 ec instance",
    "a11y_check": "a11y check",
    "l10n_files": "l10n files",
    "d3js": "d3 js",
    "log4j_config": "log4j log config",
    "web3_client": "web3 web client",
    "oauth2_token": "oauth2 oauth token",
    "MAX_K8S_PODS": "k8s max pods",
    "runE2ETests": "e2e run tests",
    "S3URL": "s3 url",
    "3d_model": "3d model",
    "lib.utf8_read": "utf8 read lib",
    "größe3_wert": "grösse3 wert",
}


@each_row(("name", "parts"), NAMES.items())
def test_a_name_is_found_by_its_parts_with_digits(name: str, parts: str) -> None:
    assert set(parts.split()) <= set(PLAIN.analyze(name))
    numbers, _ = PLAIN.numbering(terms := {}).encode_all([name])
    assert [list(terms)[number] for number in numbers.tolist()] == PLAIN.analyze(name)


@each_row(
    ("text", "asked", "marked"),
    [
        (r"see M&uuml;ller", "Müller", ["M&uuml;ller"]),
        (r'{"a": "\u00dcberraschung"}', "Überraschung", [r"\u00dcberraschung"]),
        (r"my\_name", "my_name", ["my", r"my\_name", "name"]),
        ("it has 29,125 of them", "29125", ["29,125"]),
        ("100,200,300", "200", ["200"]),
        (r'"line\nnext"', "next", ["next"]),
    ],
)
def test_what_an_escape_shows_is_marked_where_it_stands(
    text: str, asked: str, marked: list[str]
) -> None:
    terms = PLAIN.analyze_query(asked)
    assert [text[start:end] for start, end, _ in matches(text, terms)] == marked
    start, end = snippet("z " * 400 + text + " y" * 400, terms, length=60)
    assert marked[0] in ("z " * 400 + text + " y" * 400)[start:end]


SIGNS = st.text(st.sampled_from("\\_.nu0dcDx8fé&eacut;#2,1 4'{}"), max_size=40)


@pytest.mark.property
@given(SIGNS)
def test_texts_that_are_not_looked_through_have_nothing_to_read_otherwise(text: str) -> None:
    looked_through = views(f"{text} &amp;")  # the end has
    assert [f"{view.text} &" for view in views(text)] == [view.text for view in looked_through]
    assert [view.replaced for view in views(text)] == [
        view.replaced[:-1] for view in looked_through
    ]


@pytest.mark.property
@given(SIGNS)
def test_each_reading_has_its_places(text: str) -> None:
    assert views(text)[0].text == decode(text)
    for view in views(text):
        places = [view.place(at, at + 1) for at in range(len(view.text))]
        assert all(0 <= start < end <= len(text) for start, end in places)
        assert places == sorted(places)
        replaced = [each[0] for each in view.replaced]
        for at, (start, end) in enumerate(places):
            if end - start == 1 and at not in replaced:
                assert text[start] == view.text[at]


@pytest.mark.property
@given(SIGNS)
def test_a_query_that_repeats_a_text_finds_it(text: str) -> None:
    assert set(PLAIN.analyze_query(text)) <= set(PLAIN.analyze(text))
