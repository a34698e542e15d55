"""What counts as a definition in each language: names of nodes in its tree-sitter grammar."""

from __future__ import annotations

import attrs

_Names = frozenset[str]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


@attrs.frozen(kw_only=True)
class Language:
    """A grammar (``function`` of ``module``) and its kinds of nodes.

    ``holders`` are definitions that hold others; ``bodies`` hold definitions without being one;
    ``wrappers`` stand around one (decorators, ``export``); a definition of ``inner_names`` has
    its name in its only child, whose value must be one of ``values``; of ``needs_body``, only
    with a body; ``whole_titles`` are called by all that stands before their body.
    """

    name: str
    module: str
    function: str = "language"
    definitions: _Names
    holders: _Names = frozenset()
    bodies: _Names = frozenset()
    wrappers: _Names = frozenset()
    inner_names: _Names = frozenset()
    values: _Names = frozenset()
    needs_body: _Names = frozenset()
    whole_titles: _Names = frozenset()
    comments: _Names = frozenset(("comment",))


_SCRIPT_HOLDERS = _names(
    "class_declaration abstract_class_declaration interface_declaration internal_module module"
)
_SCRIPT = Language(
    name="typescript",
    module="tree_sitter_typescript",
    function="language_typescript",
    definitions=_SCRIPT_HOLDERS
    | _names(
        "enum_declaration function_declaration generator_function_declaration "
        "lexical_declaration method_definition type_alias_declaration variable_declaration"
    ),
    holders=_SCRIPT_HOLDERS,
    bodies=_names("class_body statement_block expression_statement"),
    wrappers=_names("export_statement ambient_declaration"),
    inner_names=_names("lexical_declaration variable_declaration"),
    values=_names("arrow_function function_expression generator_function class"),
    comments=_names("comment decorator"),
)
_C_HOLDERS = _names("class_specifier namespace_definition struct_specifier")
_C = Language(
    name="cpp",
    module="tree_sitter_cpp",
    definitions=_C_HOLDERS | _names("enum_specifier function_definition union_specifier"),
    holders=_C_HOLDERS,
    bodies=_names(
        "declaration declaration_list field_declaration field_declaration_list "
        "linkage_specification preproc_else preproc_if preproc_ifdef"
    ),
    wrappers=_names("template_declaration type_definition"),
    needs_body=_names("class_specifier enum_specifier struct_specifier union_specifier"),
)
_JAVA_HOLDERS = _names(
    "annotation_type_declaration class_declaration enum_declaration interface_declaration "
    "record_declaration"
)
_RUST_HOLDERS = _names("foreign_mod_item impl_item mod_item trait_item")

LANGUAGES: dict[str, Language] = {
    language.name: language
    for language in (
        Language(
            name="python",
            module="tree_sitter_python",
            definitions=_names("class_definition function_definition"),
            holders=_names("class_definition"),
            bodies=_names("block else_clause if_statement try_statement"),
            wrappers=_names("decorated_definition"),
        ),
        Language(
            name="go",
            module="tree_sitter_go",
            definitions=_names("function_declaration method_declaration type_declaration"),
            inner_names=_names("type_declaration"),
        ),
        _SCRIPT,
        attrs.evolve(_SCRIPT, name="tsx", function="language_tsx"),
        attrs.evolve(
            _SCRIPT, name="javascript", module="tree_sitter_javascript", function="language"
        ),
        Language(
            name="java",
            module="tree_sitter_java",
            definitions=_JAVA_HOLDERS
            | _names("compact_constructor_declaration constructor_declaration method_declaration"),
            holders=_JAVA_HOLDERS,
            bodies=_names(
                "annotation_type_body class_body enum_body enum_body_declarations interface_body"
            ),
            comments=_names("block_comment line_comment"),
        ),
        Language(
            name="rust",
            module="tree_sitter_rust",
            definitions=_RUST_HOLDERS
            | _names("enum_item function_item macro_definition struct_item union_item"),
            holders=_RUST_HOLDERS,
            bodies=_names("declaration_list"),
            whole_titles=_names("impl_item"),
            comments=_names("attribute_item block_comment line_comment"),
        ),
        attrs.evolve(_C, name="c", module="tree_sitter_c"),
        _C,
    )
}
"""The languages by name."""

ENDINGS: dict[str, str] = {
    ending: language
    for language, endings in {
        "c": ".c",
        # C's definitions are read by C++'s grammar too, and not the other way round.
        "cpp": ".cc .cpp .cxx .h .hh .hpp .hxx",
        "javascript": ".cjs .js .jsx .mjs",
        "typescript": ".cts .mts .ts",
        "go": ".go",
        "java": ".java",
        "python": ".py .pyi",
        "rust": ".rs",
        "tsx": ".tsx",
    }.items()
    for ending in endings.split()
}
"""The language of each ending."""
