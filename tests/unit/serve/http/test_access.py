from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import BadRequest, InvalidConfig, Overloaded
from holdfast.serve.http.guard.access import ANYONE, Access, Client, new_token
from holdfast.serve.http.guard.audit import Audit, without_literals
from holdfast.serve.http.guard.rates import Rates
from tests.support.serve.tokens import entry


def test_literals_are_left_out_whatever_they_look_like() -> None:
    assert without_literals("SELECT A1, 'it''s' FROM `t 1` WHERE b = -1.5e3 AND c='x") == (
        "SELECT A1, ? FROM `t ?` WHERE b = -? AND c=?"
    )


def test_audit_lines_are_written_and_a_full_disk_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Audit(None).note(0.0, who="nobody")
    audit = Audit(tmp_path / "none" / "audit.log")

    async def two() -> None:
        audit.note(time.monotonic(), who="a", statement="SELECT 'x'")
        audit.note(time.monotonic(), who="b", statement="SELECT 'y'")
        audit.close()

    asyncio.run(two())
    assert "audit log not written" in caplog.text


def test_lines_that_another_thread_is_writing_are_there_when_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.serve.http.guard.audit._FLUSH_S", 0.0)
    log, writing, go_on = tmp_path / "audit.log", threading.Event(), threading.Event()
    opened = Path.open

    def slow(path: Path, mode: str) -> Any:
        writing.set()
        assert go_on.wait(60)
        return opened(path, mode)

    async def run() -> None:
        audit = Audit(log)
        audit.note(time.monotonic(), who="a")
        assert await asyncio.to_thread(writing.wait, 60)
        threading.Timer(0.1, go_on.set).start()
        audit.note(time.monotonic(), who="b")
        audit.close()
        monkeypatch.undo()
        assert [json.loads(line)["who"] for line in log.read_text().splitlines()] == ["a", "b"]

    monkeypatch.setattr(Path, "open", slow)
    asyncio.run(run())


def test_patterns_are_of_whole_names() -> None:
    client = Client("c", ("MOVIE_*", "SALES"))
    assert client.may_read("MOVIE_TICKETS")
    assert client.may_read("SALES")
    assert not client.may_read("SALES_2")
    assert not client.may_read("movie_x")
    assert ANYONE.may_read("ANYTHING")


def test_the_file_of_tokens_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text(entry("a", "one", ["*"]))
    access = Access(path, look_again_s=0.0)
    header = [(b"authorization", b"Bearer two")]
    with pytest.raises(BadRequest):
        access.client(header)
    new = tmp_path / "new"
    new.write_text(entry("b", "two", ["*"]))
    new.replace(path)
    assert access.client(header).name == "b"
    path.write_text("[[client]\n")  # half written
    assert access.client(header).name == "b"
    with pytest.raises(InvalidConfig, match="cannot be read"):
        Access(path)
    for wrong in (
        "name = 1",
        'name = "x"\ntoken_sha256 = "ab"',
        entry("x", "t", ["*"], admin=True),
    ):
        path.write_text(wrong if wrong.startswith("[[") else f"[[client]]\n{wrong}\n")
        with pytest.raises(InvalidConfig, match="malformed"):
            Access(path)


def test_new_tokens_are_long_and_never_the_same() -> None:
    assert len({new_token() for _ in range(100)}) == 100
    assert len(new_token()) > 40


def test_a_client_has_a_rate_and_a_burst_of_its_own() -> None:
    rates = Rates(10.0, 3)
    for _ in range(3):
        rates.take("a", 100.0)
    with pytest.raises(Overloaded, match="more than 10 requests"):
        rates.take("a", 100.0)
    rates.take("b", 100.0)
    rates.take("a", 100.15)  # one more after a tenth of a second
    with pytest.raises(Overloaded):
        rates.take("a", 100.15)
    for _ in range(1000):
        Rates(0, 1).take("a")
