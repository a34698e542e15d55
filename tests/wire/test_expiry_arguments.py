"""``expires_at`` in JSON: a moment in ISO 8601, or "never"."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import pytest

import triptych
from triptych import NewDocument, ValidationError
from triptych.records.serialization import from_dict, to_dict
from triptych_adapters.wire import OPERATIONS

MOMENT = datetime(2999, 1, 1, tzinfo=UTC)


def test_an_operation_takes_the_moment() -> None:
    with triptych.open("memory://", embedder="none") as kb:
        put = OPERATIONS["put_document"]
        asked = {"dataset_id": "d", "name": "a", "content": "kettle"}
        assert "expires_at" not in put.call(kb, asked)
        for given, kept in (
            ("2999-01-01", MOMENT),
            ("never", None),
            ("2998-12-31T23:00-01:00", MOMENT),
        ):
            put.call(kb, {**asked, "expires_at": given})
            assert kb.get_document("d", "a").system.expires_at == kept
        with pytest.raises(ValidationError, match="ISO 8601"):
            put.call(kb, {**asked, "expires_at": "tomorrow"})
        documents = [{"name": "b", "content": "x", "expires_at": "2001-01-01T00:00:00"}]
        OPERATIONS["put_documents"].call(kb, {"dataset_id": "d", "documents": documents})
        assert OPERATIONS["count_documents"].call(kb, {"dataset_id": "d"}) == 1
        assert OPERATIONS["remove_expired"].call(kb, {"dataset_id": "d"}) == 1


@pytest.mark.parametrize("moment", [None, "never", MOMENT])
def test_a_new_document_goes_to_plain_data_and_back(
    moment: datetime | Literal["never"] | None,
) -> None:
    document = NewDocument(name="a", content="x", expires_at=moment)
    assert from_dict(NewDocument, to_dict(document)) == document
