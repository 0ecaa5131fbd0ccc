"""Sessions against a server on a real socket: what they ask, hand on and write down."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import orjson
import pytest

from holdfast.chaos.history.events import read_history
from holdfast.chaos.reads import sessions as reads
from holdfast.chaos.reads.answers import Read, reads_of
from holdfast.chaos.reads.sessions import reading
from holdfast.local.probe import free_port
from holdfast.sql import compile_text
from tests.support.serve.http_answers import answering
from tests.unit.chaos.answering import topology
from tests.unit.deploy.local_job import until

KEY = "O'Hara"
NAMES, KEYS = (("TITLE", "STRING"),), (KEY,)


class Table:
    """Answers for the key it has, each time at the next position, until it is told to fail."""

    def __init__(self, names: Sequence[tuple[str, str]] = NAMES, key: Sequence[Any] = KEYS) -> None:
        self._names, self._key = [*names], [*key]
        self.asked: list[dict[str, Any]] = []
        self.fails = False
        self._positions = itertools.count(1)

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if "LIMIT" in body["sql"]:
            assert body["properties"] == {"ksql.query.pull.table.scan.enabled": True}
            return 200, {"columns": _columns(self._names), "rows": [self._key]}
        self.asked.append(body)
        if self.fails:
            return 503, {"message": "nobody holds it", "reaction": "NoHolder"}
        state = {"position": next(self._positions), "lag": 0, "server": "7"}
        return 200, {
            "columns": _columns([*self._names, ("ROWTIME", "BIGINT"), ("N", "BIGINT")]),
            "rows": [[*self._key, 70, 1]],
            "partitions": {"3": state},
        }


def _columns(names: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": name, "type": kind} for name, kind in names]


def serving(table: Table) -> AbstractContextManager[str]:
    return answering(lambda _shown, asked: table.answer(orjson.loads(asked)))


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "_PAUSE_S", 0.01)


def found(folder: Path) -> list[Read]:
    return reads_of(read_history(folder))


def test_a_session_hands_its_positions_on_and_writes_down_what_it_is_told(tmp_path: Path) -> None:
    table, nobody = Table(), f"http://127.0.0.1:{free_port()}"
    with serving(table) as url, reading(tmp_path, topology(), [nobody, url], seed=1):
        until(lambda: len({r.session for r in found(tmp_path)}) == 4, "reads of all sessions")
        until(lambda: len(found(tmp_path)) > 20, "more reads")
    assert table.asked[0]["sql"] == (
        "SELECT `TITLE`, ROWTIME, `N` FROM `T` WHERE `TITLE` = 'O''Hara';"
    )
    everything = found(tmp_path)
    assert all(r.rows == [{"TITLE": KEY, "ROWTIME": 70, "N": 1}] for r in everything)
    assert all((r.table, r.key, r.servers) == ("T", (KEY,), {3: "7"}) for r in everything)
    mine = [r.positions for r in everything if r.session == "reader-0"]
    handed = [b["positions"] for b in table.asked if b["positions"]]
    assert {} in [b["positions"] for b in table.asked]
    assert [{"3": p[3]} for p in mine[:-1]] == [p for p in handed if {3: p["3"]} in mine[:-1]]


def test_a_read_that_nobody_answers_has_failed_and_reading_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table()
    monkeypatch.setattr(reads, "_GIVE_UP_S", 0.1)
    with serving(table) as url, reading(tmp_path, topology(), [url], seed=1):
        until(lambda: len(found(tmp_path)) > 2, "reads")
        table.fails = True
        until(lambda: any(r.rows is None for r in found(tmp_path)), "a failure")
        table.fails = False
        failed = len(found(tmp_path))
        until(lambda: len(found(tmp_path)) > failed + 2, "reads after it")
    reasons = {r.reason for r in found(tmp_path) if r.rows is None}
    assert reasons == {"nobody holds it"}
    assert found(tmp_path)[-1].rows is not None


def test_of_a_windowed_table_one_window_or_all_are_asked_for(tmp_path: Path) -> None:
    table = Table([("TITLE", "STRING"), ("WINDOWSTART", "BIGINT")], [KEY, 60])
    windowed = topology(window="WINDOW TUMBLING (SIZE 1 HOUR)")
    with serving(table) as url, reading(tmp_path, windowed, [url], seed=1):
        until(lambda: {r.start for r in found(tmp_path)} == {None, 60}, "both kinds of reads")
    look_up = "SELECT `TITLE`, WINDOWSTART, ROWTIME, `N` FROM `T` WHERE `TITLE` = 'O''Hara'"
    assert {b["sql"] for b in table.asked} == {f"{look_up};", f"{look_up} AND WINDOWSTART = 60;"}


def test_without_servers_or_tables_nothing_is_read(tmp_path: Path) -> None:
    untold = compile_text(
        "CREATE STREAM s (x DOUBLE) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"
        "CREATE TABLE t AS SELECT x, COUNT(*) AS n FROM s GROUP BY x;"
    )
    with serving(Table()) as url:
        for servers, job in (([], topology()), ([url], untold)):
            with reading(tmp_path, job, servers, seed=1):
                pass
    assert found(tmp_path) == []
