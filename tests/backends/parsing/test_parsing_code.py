"""Source code by definitions."""

from __future__ import annotations

import sys

import pytest

from support.rows import each_row
from triptych.chunking import default_chunkers
from triptych.installation import install_command
from triptych.parsing import DecodedText, ParsedFile
from triptych_parsers import CodeParser
from triptych_parsers.languages import ENDINGS, LANGUAGES


def read(name: str, text: str) -> ParsedFile:
    # Whatever the decoder takes for binary is text here.
    parsed = CodeParser(decode=lambda data, _: DecodedText(text=data.decode())).parse(
        name, text.encode()
    )
    assert parsed is not None
    return parsed


def outline(parsed: ParsedFile) -> list[tuple[str, str, str]]:
    """Each definition with those around it, its first word and its last character."""
    path: list[str] = []
    found = []
    for part in parsed.parts:
        path[part.depth :] = [part.title]
        text = parsed.content[part.start : part.end]
        found.append((" > ".join(path), text.split()[0], text[-1]))
    return found


PYTHON = '''import os

# about f
@deco
def f(é):
    return "é"


class A:
    """What A is."""

    x = 1

    def m(self):
        pass

    class B:
        async def n(self):
            pass


if True:

    def g():
        def inner():
            pass
'''
GO = """package x

// T is
type T struct {
	a int
}

// M does
func (t *T[K]) M() {
}

func F() {
}
"""
TYPESCRIPT = """import x from "y";
/** about A */
export default class A extends B {
  @dec()
  m(): void {
  }
}
export const f = (a: number) => {
  return a;
};
interface I {
  a: string;
}
namespace N {
  export function z() {
  }
}
type X = string;
"""
JAVASCRIPT = """// doc
function f() {
}
const g = function () {
};
class K {
  constructor() {
  }
}
"""
JAVA = """package a;
/** doc */
@X
public class A<T> {
  int x;
  // c
  A() {
  }
  int m(int a) {
    return 1;
  }
  enum E {
    V;
    void q() {
    }
  }
}
"""
RUST = """/// doc
#[derive(Debug)]
pub struct S {
    a: i32,
}
impl<T> Foo for S {
    fn m(&self) {
    }
}
mod t {
    fn z() {
    }
}
"""
C = """#include <x>
/* doc */
static int *f(int a) {
  return 0;
}
struct s {
  int a;
};
#ifdef X
int g(void)
{
}
#endif
"""
CPP = """namespace n {
template <class T>
class A : B {
public:
  int m() {
    return 1;
  }
};
int A::q() const {
  return 2;
}
}
extern "C" {
void h() {
}
}
"""


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        (
            "a.py",
            PYTHON,
            [
                ("f", "#", '"'),
                ("A", "class", "s"),
                ("A > m", "def", "s"),
                ("A > B", "class", "s"),
                ("A > B > n", "async", "s"),
                ("g", "def", "s"),
            ],
        ),
        ("a.go", GO, [("T", "//", "}"), ("T.M", "//", "}"), ("F", "func", "}")]),
        (
            "a.ts",
            TYPESCRIPT,
            [
                ("A", "/**", "}"),
                ("A > m", "@dec()", "}"),
                ("f", "export", ";"),
                ("I", "interface", "}"),
                ("N", "namespace", "}"),
                ("N > z", "export", "}"),
            ],
        ),
        ("a.tsx", "export function C() {\n  return <b/>;\n}\n", [("C", "export", "}")]),
        (
            "a.js",
            JAVASCRIPT,
            [
                ("f", "//", "}"),
                ("g", "const", ";"),
                ("K", "class", "}"),
                ("K > constructor", "constructor()", "}"),
            ],
        ),
        (
            "a.java",
            JAVA,
            [
                ("A", "/**", "}"),
                ("A > A", "//", "}"),
                ("A > m", "int", "}"),
                ("A > E", "enum", "}"),
                ("A > E > q", "void", "}"),
            ],
        ),
        (
            "a.rs",
            RUST,
            [
                ("S", "///", "}"),
                ("impl<T> Foo for S", "impl<T>", "}"),
                ("impl<T> Foo for S > m", "fn", "}"),
                ("t", "mod", "}"),
                ("t > z", "fn", "}"),
            ],
        ),
        ("a.c", C, [("f", "/*", "}"), ("s", "struct", "}"), ("g", "int", "}")]),
        (
            "a.cpp",
            CPP,
            [
                ("n", "namespace", "}"),
                ("n > A", "template", ";"),
                ("n > A > m", "int", "}"),
                ("n > A::q", "int", "}"),
                ("h", "void", "}"),
            ],
        ),
    ],
)
def test_the_definitions_of_each_language_are_found(
    name: str, text: str, found: list[tuple[str, str, str]]
) -> None:
    pytest.importorskip("tree_sitter")
    parsed = read(name, text)
    assert outline(parsed) == found
    assert parsed.content == text
    assert parsed.notes == ()


def test_a_chunk_of_code_knows_its_definition_and_its_lines() -> None:
    pytest.importorskip("tree_sitter")
    parsed = read("a.py", PYTHON)
    chunks = default_chunkers().for_document("a.py", parsed.metadata, parsed.outline).chunk(PYTHON)
    shown = {chunk.heading_path: chunk.locator for chunk in chunks}
    assert shown == {
        (): "line 22",
        ("f",): "lines 3-6",
        ("A",): "lines 9-12",
        ("A", "m"): "lines 14-15",
        ("A", "B", "n"): "lines 17-19",
        ("g",): "lines 24-26",
    }


def test_every_grammar_is_there_and_every_name_of_a_node_is_one_of_its() -> None:
    tree_sitter = pytest.importorskip("tree_sitter")
    from triptych_parsers.definitions import _loaded

    for name, language in LANGUAGES.items():
        grammar = _loaded(language.module, language.function)
        assert isinstance(grammar, tree_sitter.Language)
        known = {grammar.node_kind_for_id(at) for at in range(grammar.node_kind_count)}
        # JavaScript's names are a part of TypeScript's, C's of C++'s.
        if name not in ("javascript", "c"):
            named = language.definitions | language.bodies | language.wrappers | language.comments
            assert named <= known, name
    assert set(ENDINGS.values()) == set(LANGUAGES)


def test_code_without_the_library_is_cut_as_text_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter", None)
    from triptych_parsers import definitions

    definitions._loaded.cache_clear()
    parsed = read("a.py", PYTHON)
    assert parsed.content == PYTHON
    assert parsed.parts == ()
    assert parsed.parser_sig == "code/1 plain"
    assert install_command(extra="code") in parsed.notes[0]


def test_code_that_was_generated_is_cut_as_text() -> None:
    parsed = read("a.js", "x=1;" * 1_100_000)
    assert parsed.parts == ()
    assert "characters" in parsed.notes[0]


@each_row("name", ["a.py", "a.js", "a.cpp", "a.rs", "a.go", "a.java"])
@each_row("piece", ["(", "{", "class A {", "def f(:\n", "'", "/*", "}", "if (", "\x00"])
def test_code_that_is_broken_is_still_text(name: str, piece: str) -> None:
    text = piece * 3_000
    assert read(name, text).content == text


def test_other_languages_are_text_without_a_note() -> None:
    parsed = read("a.sh", "echo 1\n")
    assert (parsed.parts, parsed.notes, parsed.metadata["kind"]) == ((), (), "code")
