"""Structured logs on the standard library: readable lines for people, JSON lines for machines.

Code logs an event and its fields: `log.info("restored", extra={"records": 10})`.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from datetime import UTC, datetime
from enum import StrEnum
from typing import TextIO

__all__ = ["LogFormat", "configure_logging"]

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# py4j logs every connection at INFO, and logs as an error what a call has already raised.
# httpx, and httpx2 of the schema registry's client, log a line for every request.
_QUIET = {
    "py4j": logging.WARNING,
    "py4j.clientserver": logging.CRITICAL,
    "httpx": logging.WARNING,
    "httpx2": logging.WARNING,
}


# librdkafka tells of every attempt to connect, of every client: hundreds of lines for one reason.
_REPEATS = "holdfast.kafka"
_SELDOM_S = 10.0
_OF_AN_ATTEMPT = re.compile(r"\(after .*?\)|\[rdkafka#.*?\]")


class _Seldom(logging.Filter):
    """Lets the same message pass once in a while."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        key, now = _OF_AN_ATTEMPT.sub("", record.getMessage()), time.monotonic()
        self._told = {k: at for k, at in self._told.items() if now - at < _SELDOM_S}
        if key in self._told:
            return False
        self._told[key] = now
        return True


class LogFormat(StrEnum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


class _JsonFormatter(logging.Formatter):
    """One JSON object per line: time (UTC, ISO 8601), level, logger, event, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        # A field must not hide the time or the level of its own line.
        line.update({k if k not in line else f"{k}_": v for k, v in _fields(record).items()})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class _TextFormatter(logging.Formatter):
    """`12:30:01.250 INFO  runtime.job: event  key=value`, local time."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).astimezone()
        clock = f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"
        name = record.name.removeprefix("holdfast.")
        fields = "".join(f"  {key}={value}" for key, value in _fields(record).items())
        line = f"{clock} {record.levelname:<7} {name}: {record.getMessage()}{fields}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def configure_logging(
    form: LogFormat = LogFormat.TEXT, *, level: str = "INFO", stream: TextIO | None = None
) -> None:
    """Send all logs of this process to one stream (standard error) in one format.

    Calling it again replaces the earlier setup; other handlers stay.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonFormatter() if form is LogFormat.JSON else _TextFormatter())
    handler.name = "holdfast"
    root = logging.getLogger()
    root.handlers = [h for h in root.handlers if h.name != handler.name] + [handler]
    root.setLevel(level)
    repeats = logging.getLogger(_REPEATS)
    if not any(isinstance(each, _Seldom) for each in repeats.filters):
        repeats.addFilter(_Seldom())
    for name, quiet in _QUIET.items():
        logging.getLogger(name).setLevel(quiet)
