"""An extension of Griffe, which reads the sources for the API reference (see mkdocs.yml).

Methods of `Dataset` and of the asynchronous classes are made of others
(``put = awaited(Dataset.put)``), which a reader of sources sees as attributes; those of `Service`
have the docstrings of `Operations`. Here they become what they are at run time.
"""

from __future__ import annotations

from typing import Any

import griffe

MAKERS = {"_of": set(), "awaited": {"async"}, "streamed": set()}
"""The functions that make a method of another, and the labels of what they make."""


class Views(griffe.Extension):
    """Puts functions in place of the attributes that `MAKERS` make."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Replace the attributes of the classes that are made so, once the package is read."""
        if pkg.name != "triptych":
            return
        knowledge_base = pkg["service.knowledge_base"]
        _document(knowledge_base["Dataset"], pkg)
        for name, member in pkg["service.Service"].all_members.items():
            declared = pkg["service.knowledge_base.KnowledgeBase"].all_members.get(name)
            if member.docstring is None and declared is not None:
                member.docstring = declared.docstring
        for methods in (knowledge_base["DatasetMethods"], *pkg["aio.methods"].classes.values()):
            for name, member in list(methods.members.items()):
                maker, _, rest = str(getattr(member, "value", "")).partition("(")
                if maker not in MAKERS:
                    continue
                owner, _, method = rest.rstrip(")").partition(",")[0].partition(".")
                source = pkg[methods.module.resolve(owner).partition(".")[2]].all_members[method]
                parameters = [*source.parameters]
                if maker == "_of":  # the dataset is filled in
                    del parameters[1]
                owner = owner.replace("Operations", "KnowledgeBase")
                said = f"[`{owner}.{method}`][triptych.{owner}.{method}]"
                text = source.docstring.value if source.docstring else ""
                made = griffe.Function(
                    name,
                    lineno=member.lineno,
                    endlineno=member.endlineno,
                    parameters=griffe.Parameters(*parameters),
                    returns="AsyncAnswerStream" if maker == "streamed" else source.returns,
                    docstring=griffe.Docstring(f"{said}.\n\n{text}"),
                )
                made.docstring.parent = made
                made.labels |= MAKERS[maker]
                methods.set_member(name, made)


def _document(views: griffe.Class, pkg: griffe.Module) -> None:
    """Give each method the docstring of the one that its decorator names."""
    for member in views.functions.values():
        for decorator in member.decorators:
            maker, _, rest = str(decorator.value).partition("(")
            if maker == "_documented":
                owner, _, method = rest.rstrip(")").partition(".")
                source = pkg[views.module.resolve(owner).partition(".")[2]].all_members[method]
                said = f"[`KnowledgeBase.{method}`][triptych.KnowledgeBase.{method}]"
                text = source.docstring.value if source.docstring else ""
                member.docstring = griffe.Docstring(f"{said}.\n\n{text}", parent=member)
