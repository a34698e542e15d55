"""An extension of Griffe, which reads the sources for the API reference (see mkdocs.yml).

Methods of `Dataset` and of the asynchronous classes are made of others, as in
``put = _of_dataset(Documents.put_document)``, which a reader of sources sees as attributes. Here
they become what they are at run time: methods with the signature and the docstring of the other.
"""

from __future__ import annotations

from typing import Any

import griffe

MAKERS = {"_of_dataset": set(), "awaited": {"async"}, "streamed": set()}
"""The functions that make a method of another, and the labels of what they make."""


class Views(griffe.Extension):
    """Puts functions in place of the attributes that `MAKERS` make."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Replace the attributes of the classes that are made so, once the package is read."""
        if pkg.name != "triptych":
            return
        for home in ("service.views.DatasetMethods", *_named(pkg["aio.methods"])):
            methods = pkg[home]
            for name, member in list(methods.members.items()):
                maker, _, rest = str(getattr(member, "value", "")).partition("(")
                if maker not in MAKERS:
                    continue
                owner, _, method = rest.rstrip(")").partition(".")
                source = pkg[methods.module.resolve(owner).partition(".")[2]].all_members[method]
                given = list(source.parameters)
                if maker == "_of_dataset":
                    owner = "Service"
                    given = [each for each in given if each.name != "dataset_id"]
                said = f"`{owner}.{method}`"
                if owner in ("Service", "Dataset"):  # those are at the top, and on its page
                    said = f"[{said}][triptych.{owner}.{method}]"
                text = source.docstring.value if source.docstring else ""
                made = griffe.Function(
                    name,
                    lineno=member.lineno,
                    endlineno=member.endlineno,
                    parameters=griffe.Parameters(*given),
                    returns="AsyncAnswerStream" if maker == "streamed" else source.returns,
                    docstring=griffe.Docstring(f"{said}.\n\n{text}"),
                )
                made.docstring.parent = made
                made.labels |= MAKERS[maker]
                methods.set_member(name, made)


def _named(module: griffe.Module) -> list[str]:
    return [f"aio.methods.{name}" for name in module.classes]
