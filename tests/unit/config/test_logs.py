from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from holdfast.config.logs import LogFormat, configure_logging


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)


def _log(form: LogFormat) -> str:
    stream = io.StringIO()
    configure_logging(form, stream=stream)
    log = logging.getLogger("holdfast.state.restore")
    log.info("restored %s", "store", extra={"records": 10, "level": "deep"})
    try:
        int("no")
    except ValueError:
        log.exception("failed")
    log.debug("unseen")
    return stream.getvalue()


def test_json_lines_carry_fields_and_never_hide_their_own() -> None:
    first, second = (json.loads(line) for line in _log(LogFormat.JSON).splitlines())
    assert first["event"] == "restored store"
    assert first["level"] == "info"
    assert first["level_"] == "deep"
    assert first["records"] == 10
    assert first["logger"] == "holdfast.state.restore"
    assert first["time"].endswith("Z")
    assert "ValueError: invalid literal" in second["exception"]


def test_readable_lines_show_fields_and_tracebacks() -> None:
    text = _log(LogFormat.TEXT)
    assert "INFO    state.restore: restored store  records=10" in text
    assert "ValueError: invalid literal" in text
    assert "unseen" not in text


def test_the_same_trouble_with_a_broker_is_told_once_in_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("holdfast.config.logs.time.monotonic", lambda: now[0])
    stream, log = io.StringIO(), logging.getLogger("holdfast.kafka")
    configure_logging(stream=stream)
    configure_logging(stream=stream)
    for at in (0.0, 1.0, 9.0, 11.0):
        now[0] = 100.0 + at
        for client in (1, 2):
            for broker in ("a:9092", "b:9092"):
                log.error(
                    "FAIL [rdkafka#producer-%d] [thrd:%s]: %s: refused (after %dms in state X)",
                    client, broker, broker, at,
                )  # fmt: skip
    lines = stream.getvalue().splitlines()
    assert [line.split("[thrd:")[1][0] for line in lines] == ["a", "b", "a", "b"]


def test_configuring_again_replaces_and_keeps_the_handlers_of_others() -> None:
    other = logging.NullHandler()
    logging.getLogger().addHandler(other)
    first, second = io.StringIO(), io.StringIO()
    configure_logging(stream=first)
    configure_logging(stream=second)
    logging.getLogger("holdfast").info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1
    assert other in logging.getLogger().handlers
