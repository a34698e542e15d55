"""Make the table in knowledge/triptych/text/english.py from LemmInflect's lemma table.

    pip download --no-deps lemminflect==0.2.3
    python bench/irregular_forms.py lemminflect-0.2.3-py3-none-any.whl

Prints the table's lines, "base form form …". The docstring of the module that holds them says
what is taken and what is left out; this is that rule.
"""

from __future__ import annotations

import argparse
import gzip
import json
import textwrap
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import Stemmer

from triptych.text.english import ENGLISH_STOP_WORDS

LEMMAS = "lemminflect/resources/lemma_lu.csv.gz"
VOCABULARY = Path(__file__).parent.parent / (
    "backends/triptych_models/data/minilm-l6-v2-tokenizer.json"
)
# The lexicon lists these as nouns, but hardly anybody means them so: the given, the fallen.
INFLECTED_AFTER_ALL = {
    *("bacteria", "bent", "drew", "drove", "drunk", "fallen", "given", "known", "sang", "stuck"),
}
# Words of their own that the lexicon does not list as such: a born leader, an LED, a staid man;
# and what it lists under a base that is another word: relaid, of "re-lay".
OWN_WORDS = {"born", "led", "relaid", "staid"}
PREFIXES = ("fore", "mis", "out", "over", "re", "un", "under", "up", "with")

Readings = dict[str, dict[str, set[str]]]
stem = Stemmer.Stemmer("english").stemWord


def is_word(text: str) -> bool:
    return text.isascii() and text.isalpha() and text.islower()


def is_regular(form: str, base: str) -> bool:
    """Whether ``form`` is made by rule, which is the stemmer's business, well done or not."""
    roots = {base, base + base[-1], base + "k"}
    roots |= {base.removesuffix("e"), base.removesuffix("y") + "i", base.removesuffix("ie") + "y"}
    if form == base + "d":
        return base.endswith("e")  # not heard
    return any(form == root + ending for root in roots for ending in ("s", "es", "ed", "ing"))


def read(wheel: Path) -> Readings:
    """Return the bases of every form, by part of speech; spelt without hyphens."""
    readings: Readings = defaultdict(lambda: defaultdict(set))
    with zipfile.ZipFile(wheel) as archive:
        for line in gzip.decompress(archive.read(LEMMAS)).decode().splitlines():
            form, part, bases = line.split(",")
            readings[form][part] |= {base.replace("-", "") for base in bases.split("/")}
    return readings


def irregular(readings: Readings) -> Iterator[tuple[str, str]]:
    """Yield form and base of all that the rule admits, frequent or not."""
    own = {
        base.casefold()
        for parts in readings.values()
        for part, bases in parts.items()
        if part != "adj"
        for base in bases
    } - INFLECTED_AFTER_ALL
    for form, parts in readings.items():
        bases = {base for part in parts if part != "adj" for base in parts[part]}
        # The nouns of INFLECTED_AFTER_ALL are bases of themselves.
        bases = {base for base in bases if base.casefold() != form}
        if (
            is_word(form)
            and parts.keys() & {"noun", "verb"}
            and "adv" not in parts
            and form not in own | OWN_WORDS | ENGLISH_STOP_WORDS
            and "aux" not in parts
            and len(bases) == 1
            and is_word(base := bases.pop())
            and base not in ENGLISH_STOP_WORDS
            and not is_regular(form, base)
            and stem(form) != stem(base)
        ):
            yield form, base


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheel", type=Path, help="LemmInflect 0.2.3")
    pairs = set(irregular(read(parser.parse_args().wheel)))
    frequent = set(json.loads(VOCABULARY.read_text())["model"]["vocab"])
    taken = {(form, base) for form, base in pairs if {form, base} & frequent}
    taken |= {
        (form, base)
        for form, base in pairs
        for prefix in PREFIXES
        if form.startswith(prefix)
        and base.startswith(prefix)
        and (form.removeprefix(prefix), base.removeprefix(prefix)) in taken
    }
    forms = defaultdict(list)
    for form, base in sorted(taken):
        forms[base].append(form)
    entries = (" ".join([base, *forms[base]]) for base in sorted(forms))
    print(textwrap.fill("; ".join(entries), 96))


if __name__ == "__main__":
    main()
