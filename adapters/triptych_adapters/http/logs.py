"""Logs as lines of JSON on stderr."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from triptych_adapters.http.guard import LOGGER

__all__ = ["JsonFormatter", "log_to_stderr"]


class JsonFormatter(logging.Formatter):
    """One object a record: time, level, event, and what the record adds as ``fields``."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True, default=str)


def log_to_stderr() -> None:
    """Write requests, and what everything else warns of, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(LOGGER).setLevel(logging.INFO)
    logging.captureWarnings(True)
