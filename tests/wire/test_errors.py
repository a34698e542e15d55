"""One table of errors: every class of the tree once, and a form for each error there is."""

from __future__ import annotations

from collections.abc import Iterator

from support.rows import each_row
from triptych import errors
from triptych_adapters.wire.errors import (
    ERRORS,
    Exit,
    error_code,
    error_form,
    error_json,
    error_kind,
)
from triptych_evaluation import MalformedFileError


def tree(kind: type[errors.TriptychError]) -> Iterator[type[errors.TriptychError]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from tree(below)


def test_every_class_of_the_tree_is_in_the_table_exactly_once() -> None:
    kinds = [form.kind for form in ERRORS]
    found = list(tree(errors.TriptychError))
    assert sorted(kind.__name__ for kind in found) == sorted(errors.__all__)
    assert sorted(kinds, key=repr) == sorted(found, key=repr)


def test_every_row_says_how_a_command_and_a_request_end() -> None:
    for form in ERRORS:
        assert form.exit_code not in (Exit.OK, Exit.PARTIAL, Exit.INTERRUPTED, Exit.BROKEN_PIPE)
        assert 400 <= form.status < 600
        assert form.hint == form.hint.strip()
        assert not form.hint.endswith(".")


@each_row(
    ("kind", "exit_code", "status"),
    [
        (errors.ValidationError, Exit.USAGE, 400),
        (errors.NotFoundError, Exit.NOT_FOUND, 404),
        (errors.ConflictError, Exit.CONFLICT, 409),
        (errors.StoreLockedError, Exit.STORE, 503),
        (errors.NotAvailableError, Exit.NOT_AVAILABLE, 501),
        (MalformedFileError, Exit.USAGE, 400),
    ],
)
def test_an_error_has_the_form_of_its_class_or_of_the_nearest_above(
    kind: type[errors.TriptychError], exit_code: Exit, status: int
) -> None:
    form = error_form(kind)
    assert form is not None
    assert (form.exit_code, form.status) == (exit_code, status)


def test_a_class_comes_back_from_its_code() -> None:
    assert [error_kind(error_code(form.kind)) for form in ERRORS] == [form.kind for form in ERRORS]
    assert error_code(errors.NotFoundError("x")) == "NOT_FOUND_ERROR"
    assert error_code(MalformedFileError) == error_code(errors.ValidationError) == "INVALID_REQUEST"
    assert error_code(KeyError("x")) == "INTERNAL_ERROR"
    assert error_kind("NOT_FOUND") is None


def test_what_triptych_does_not_raise_has_no_form() -> None:
    assert error_form(KeyError("x")) is None
    assert error_form(ValueError) is None


def test_a_hint_belongs_to_the_class_and_not_to_the_exit_code() -> None:
    hints = {form.hint for form in ERRORS if form.exit_code is Exit.MODEL}
    assert len(hints) > 1
    locked = error_form(errors.StoreLockedError("x"))
    corrupt = error_form(errors.CorruptStoreError("x"))
    assert locked is not None
    assert corrupt is not None
    assert "TRIPTYCH_LOCK_TIMEOUT" in locked.hint
    assert "TRIPTYCH_LOCK_TIMEOUT" not in corrupt.hint


def test_an_error_is_its_class_and_its_message() -> None:
    found = error_json(errors.NotFoundError("there is no dataset 'x'"))
    assert found == {"type": "NotFoundError", "message": "there is no dataset 'x'"}
