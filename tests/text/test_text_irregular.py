from __future__ import annotations

import Stemmer

from support.rows import each_row
from triptych.text.english import ENGLISH_STOP_WORDS, IRREGULAR_FORMS, irregular_forms

STEM = Stemmer.Stemmer("english").stemWord


def test_every_entry_unites_what_the_stemmer_keeps_apart() -> None:
    assert len(IRREGULAR_FORMS) > 300
    for form, base in IRREGULAR_FORMS.items():
        assert form.encode("ascii").islower(), form
        assert form.isalpha(), form
        assert STEM(form) != STEM(base), form


def test_no_form_is_a_base_and_none_is_a_stop_word() -> None:
    assert not IRREGULAR_FORMS.keys() & set(IRREGULAR_FORMS.values())
    assert not (IRREGULAR_FORMS.keys() | set(IRREGULAR_FORMS.values())) & ENGLISH_STOP_WORDS


@each_row(
    ("term", "forms"),
    [("buy", ("bought",)), ("mous", ("mice",)), ("write", ("written", "wrote")), ("house", ())],
)
def test_the_forms_of_a_term_are_known(term: str, forms: tuple[str, ...]) -> None:
    assert irregular_forms(term) == forms
