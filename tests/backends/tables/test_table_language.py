"""Tables that are searched in place are in one language, which is named."""

from __future__ import annotations

import pytest

from triptych.errors import ValidationError
from triptych_factory import open_tables


def test_a_table_takes_no_language_that_is_found_in_each_text() -> None:
    with pytest.raises(ValidationError, match="name it"):
        open_tables(
            "postgresql://nobody@127.0.0.1:1/none",
            [{"table": "t", "id": "id", "text": "body"}],
            language="auto",
        )
