"""Figures and dates are compared as numbers, however they are written."""

from __future__ import annotations

from datetime import date

from hypothesis import assume, given, settings, strategies as st

from support.examples import examples
from support.rows import each_row
from triptych.answers import Citation, Claim, Piece, prove

MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre "
    "noviembre diciembre",
}


FRAMES = {
    "en": "We think that it was {} in the end, and not more than that.",
    "de": "Es war am Ende {} und das ist nicht mehr als sonst.",
    "fr": "À la fin il y en avait {} et pas plus que cela dans la maison.",
    "": "{}",
}


def claims(answer: str, source: str, question: str = "") -> list[Claim]:
    citation = Citation(
        dataset_id="d", doc_name="a", version=1, start=0, end=len(source), text=source
    )
    return list(prove(answer, [Piece(number=1, citation=citation)], question))


def same(one: str, other: str, language: str = "en", its: str = "en") -> bool:
    """Whether what a source says in one language supports what an answer says in another."""
    (claim,) = claims(FRAMES[language].format(one), FRAMES[its].format(other))
    assert claim.kind == "figure"
    return claim.status == "supported"


@each_row(
    "one, other, language, its",
    [
        ("1,000", "1000", "en", "en"),
        ("1.000", "1000", "de", "en"),
        ("1 000", "1,000", "de", "en"),
        ("1'000", "1000", "en", "en"),
        ("1\u202f000 000", "1000000", "de", "en"),
        ("2.5 bar", "2.5bar", "en", "en"),
        ("2,5 bar", "2.5 bar", "de", "en"),
        ("2.5 bar", "2500 mbar", "en", "en"),
        ("12%", "0.12", "en", "en"),
        ("12 %", "12 percent", "en", "en"),
        ("12％", "12%", "en", "en"),
        ("90 minutes", "1.5 hours", "en", "en"),
        ("3 days", "3 Tage", "en", "de"),
        ("2 million", "2,000,000", "en", "en"),
        ("4,2 Mio. Euro", "€4.2 million", "de", "en"),
        ("18,75 millions d’euros", "18.75 million euros", "de", "en"),
        ("420万欧元", "€4,200,000", "en", "en"),
        ("1.5e-3", "0.0015", "en", "en"),
        ("1.5 × 10^-3", "0.0015", "en", "en"),
        ("2·10⁶", "2000000", "en", "en"),
        ("−41.2 °C", "-41.2°C", "en", "en"),
        (".662", "0.662", "en", "en"),
        ("**18.75** million", "18750000", "en", "en"),
        ("１２", "12", "en", "en"),
        ("1.234.567,8", "1234567.8", "", "en"),
    ],
)
def test_the_same(one: str, other: str, language: str, its: str) -> None:
    assert same(one, other, language, its)
    assert same(other, one, its, language)


@each_row(
    "one, other, language, its",
    [
        ("1,000", "1", "en", "en"),
        ("1.000", "1", "de", "en"),
        ("6.0 bar", "2.5 bar", "en", "en"),
        ("2.5 bar", "2.5 psi", "en", "en"),
        ("12%", "1.2", "en", "en"),
        ("5 °C", "-5 °C", "en", "en"),
        ("5 MW", "5 mW", "en", "en"),
        ("5 MB", "5 MiB", "en", "en"),
        ("5 €", "$5", "en", "en"),
        ("3 minutes", "3 months", "en", "en"),
    ],
)
def test_not_the_same(one: str, other: str, language: str, its: str) -> None:
    assert not same(one, other, language, its)
    assert not same(other, one, its, language)


def test_a_thousand_or_one_where_the_language_is_unknown() -> None:
    assert same("1.000", "1000", "")
    assert same("1.000", "1", "")
    assert not same("1.000", "100", "")


def test_the_language_of_the_question_counts() -> None:
    (claim,) = claims("1.000", "It was 1 of them in the end.", "How many of them were there?")
    assert claim.status == "supported"
    (claim,) = claims("1.000", "It was 1 of them in the end.", "Wie viele waren es und warum?")
    assert claim.status == "nowhere"


@each_row(
    "text",
    [
        "It is UTF-8, SHA-256, H2O, x86_64, nDCG@10, p50 and v2.",
        "It is 3.11.2 at 192.168.0.1, from 12:30 on.",
    ],
)
def test_numbers_in_identifiers_are_no_figures(text: str) -> None:
    assert "figure" not in {each.kind for each in claims(text, "")}


def test_an_identifier_after_a_figure_takes_nothing_away() -> None:
    (claim,) = claims("It works at 5 bar.", "It works at 5 bar with 3D parts.")
    assert claim.status == "supported"
    said = claims("It works at 7 bar with 3D parts.", "It works at 5 bar with 3D parts.")
    assert [(each.text, each.status) for each in said if each.kind == "figure"] == [
        ("7 bar", "nowhere")
    ]


@each_row("text", ["10–15 bar", "10 - 15 bar", "10 to 15 bar", "10 bis 15 bar", "10 à 15 bar"])
def test_both_ends_of_a_range_have_its_unit(text: str) -> None:
    said = f"We think that it is at {text} for now."
    assert [each.status for each in claims("It is 10 bar, or 15 bar.", said)] == ["supported"] * 2
    assert [each.status for each in claims("It is 10 psi, or 15 psi.", said)] == ["nowhere"] * 2
    assert [each.status for each in claims(said, "It is 10 bar, or 15 bar.")] == ["supported"] * 2


@each_row(
    "figure, source",
    [
        ("3", "It has three plates."),
        ("12 months", "Es dauert zwölf Monate."),
        ("1 million", "It was a million at the time."),
        ("10", "It has ten of them."),
    ],
)
def test_words_of_a_source_count(figure: str, source: str) -> None:
    (claim,) = claims(f"We say that it is {figure}.", source)
    assert claim.status == "supported"


@given(
    st.integers(0, 10**9),
    st.integers(0, 3),
    st.sampled_from(["en", "de", "fr"]),
    st.sampled_from(["", " bar", "bar", " €", "%", "-second", " of them", ", and", "**"]),
    st.sampled_from(["", "about ", "(", "≤", "(−", "**", "为", "~"]),
    st.integers(0, 2),
)
@settings(max_examples=examples(400), deadline=None)
def test_a_number_is_read_as_it_was_written(
    units: int, places: int, language: str, after: str, before: str, changed: int
) -> None:
    assume(language == "en" or before != "为")  # the mark is that of Chinese
    assume(places != 3 or units >= 10**6)  # 1.000 is read by the language
    thousands, decimal = {"en": ",.", "de": ".,", "fr": "\u202f,"}[language]

    def written(units: int) -> str:
        text = f"{units / 10**places:,.{places}f}"
        text = text.replace(",", "_").replace(".", decimal).replace("_", thousands)
        return FRAMES[language].format(f"{before}{text}{after}")

    plain = f"{'-' if '−' in before else ''}{units / 10**places:.{places}f}"
    plain += after if after in ("%", " €", "bar", "-second") else ""
    (claim,) = claims(written(units + changed), FRAMES["en"].format(plain))
    assert (claim.status == "supported") == (not changed), claim


@given(st.dates(date(1900, 1, 1), date(2199, 12, 31)), st.sampled_from(sorted(MONTHS)))
@settings(max_examples=examples(200), deadline=None)
def test_a_date_is_read_in_every_form(day: date, language: str) -> None:
    month = MONTHS[language].split()[day.month - 1]
    forms = [
        day.isoformat(),
        f"{day:%Y/%m/%d}",
        f"{day.year}年{day.month}月{day.day}日",
        f"{day.day:02}.{day.month:02}.{day.year}",
        f"{day.day} {month} {day.year}",
        f"{day.day}. {month} {day.year}",
        f"{day.day} de {month} de {day.year}",
        f"{day:%d/%m/%Y}",
        f"{day:%m/%d/%Y}",
        *([f"{month} {day.day}, {day.year}"] if language == "en" else []),
    ]
    for form in forms:
        found = claims(f"It was made on {form}, we think.", f"On {day.isoformat()}.")
        assert [(each.kind, each.text, each.status) for each in found] == [
            ("date", form, "supported")
        ]
        other = day.replace(year=day.year - 1, day=1).isoformat()
        (claim,) = claims(f"It was made on {form}, we think.", f"On {other}.")
        assert claim.status == "nowhere"


def test_a_part_of_a_date_is_enough() -> None:
    def status(answer: str, source: str) -> str:
        (claim,) = claims(f"It was made in {answer}.", source)
        return claim.status

    assert status("September 2026", "On 2 September 2026.") == "supported"
    assert status("2 September 2026", "In September 2026.") == "nowhere"
    assert status("3 September 2026", "On 2 September 2026.") == "nowhere"
    assert status("December 2024", "0.28.1 of 2024-12.") == "supported"
    # The year stands in the heading above.
    assert status("2 September 2026", "# 2026\n\nOn 2 September.") == "supported"
    assert status("2 September 2025", "# 2026\n\nOn 2 September.") == "nowhere"


@given(
    st.text(max_size=60)
    | st.text("0123456789.,-−e×10^⁻³'/: %€kMW月年日MaymarSept\u202f*", max_size=40),
    st.text("0123456789.,-−e×10^⁻³'/: %€kMW月年日MaymarSept\u202f*", max_size=40),
)
@settings(max_examples=examples(400), deadline=None)
def test_any_text_is_read(answer: str, source: str) -> None:
    for each in claims(answer, source):
        assert each.start < each.end
