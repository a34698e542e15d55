"""The forms of .github/ISSUE_TEMPLATE are such that a forge shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.doc_pages import ISSUE_FORMS

FORMS = [path for path in ISSUE_FORMS if path.name != "config.yml"]
KINDS = {"input", "textarea", "dropdown", "checkboxes"}


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_has_what_is_required_and_asks_each_thing_once(path: Path) -> None:
    form: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert form.keys() == {"name", "description", "labels", "body"}
    asked = [each for each in form["body"] if each["type"] != "markdown"]
    assert {each["type"] for each in asked} <= KINDS
    assert all(each["attributes"]["label"] for each in asked)
    assert any(each.get("validations", {}).get("required") for each in asked)
    ids = [each["id"] for each in asked]
    assert len(set(ids)) == len(ids)


def test_each_kind_of_issue_has_its_form() -> None:
    assert {path.stem for path in FORMS} == {"bug", "feature", "wrong_answer"}
    texts = {path.stem: path.read_text(encoding="utf-8") for path in FORMS}
    assert "triptych doctor --json" in texts["bug"]
    assert "--why" in texts["wrong_answer"]
