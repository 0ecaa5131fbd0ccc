from __future__ import annotations

import time
from decimal import Decimal
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.cli.servers.near import USUAL, near, server_for, tables_of
from holdfast.cli.shell.results import _cell, bounded, told_lag
from holdfast.client import Partition
from holdfast.local.probe import free_port
from holdfast.serve.http.guard.access import Access
from tests.support.serve.http_world import served


def test_a_pull_query_is_shown_as_a_table_and_as_json(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with served(tmp_path) as server:
        ask = ["query", "--server", server.url, "--set", "max.allowed.offset.lag=5"]
        assert main([*ask, "SELECT MANY 2"]) == 0
        shown = capfd.readouterr()
        words = [word for word in shown.out.split() if "─" not in word]
        assert words == ["NAME", "COUNT", "k0", "0", "k1", "1"]
        assert "2 rows, 3 changes behind" in shown.err
        assert server.told.asked[-1].properties == {
            "ksql.query.pull.table.scan.enabled": "true", "max.allowed.offset.lag": "5",
        }  # fmt: skip
        assert main([*ask, "--json", "SELECT TYPES"]) == 0
        assert '"M":12.30' in capfd.readouterr().out, "a number, as in the server's answer"
        assert main([*ask, "nonsense"]) == 2
        assert "Syntax Error" in capfd.readouterr().err


def test_without_an_address_the_server_with_the_table_is_asked(tmp_path: Path) -> None:
    silent = f"http://127.0.0.1:{free_port()}"
    with served(tmp_path) as server:
        (table, *_) = sorted(tables_of(server.url))
        there = [silent, server.url]
        assert server_for(f"SELECT * FROM {table.lower()};", there) == server.url
        assert server_for(f"SELECT n\nFROM `{table}`;", there) == server.url
        assert server_for("SELECT * FROM nowhere;", there) == silent
        assert server_for(f"SELECT {table} FROM nowhere;", there) == silent
    assert near(tmp_path) == [USUAL]


def test_an_answer_of_servers_that_do_not_hear_from_kafka_is_told_to_be_old() -> None:
    now_ms = int(time.time() * 1000)
    recent, old = Partition(5, 2, checked_ms=now_ms), Partition(5, 1, checked_ms=now_ms - 60_000)
    assert told_lag([recent, Partition(5, 1)]) == "3 changes behind"
    assert told_lag([]) == "0 changes behind"
    lately = Partition(5, 1, checked_ms=now_ms - 9_000)
    assert told_lag([recent, lately]) == "3 changes behind 9 s ago"
    told = told_lag([recent, old])
    assert told == (
        "how far behind is unknown: the servers have heard nothing from Kafka for 60 s "
        "(3 changes behind then)"
    )


def test_tokens_go_into_the_file_that_servers_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens.toml"
    for name, more in (("dash", ["--read", "A*", "--read", "B"]), ("other", ["--peer"])):
        assert main(["token", name, *more, "--file", str(path)]) == 0
    tokens = capfd.readouterr().out.split()
    assert path.stat().st_mode & 0o077 == 0
    assert not any(token in path.read_text() for token in tokens)
    access = Access(path)
    clients = [access.client([(b"authorization", f"Bearer {t}".encode())]) for t in tokens]
    assert [(c.name, c.read, c.peer) for c in clients] == [
        ("dash", ("A*", "B"), False),
        ("other", (), True),
    ]
    path.write_text("[[client]\n")
    assert main(["token", "third", "--file", str(path)]) == 2
    assert path.read_text() == "[[client]\n"
    assert main(["token", "alone"]) == 0
    assert "[[client]]" in capfd.readouterr().err


def test_a_push_query_says_that_it_waits(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path) as server:
        ask = ["query", "--server", server.url, "SELECT MANY 2 EMIT CHANGES"]
        assert main(ask) == 0
        told = capfd.readouterr().err
        assert "Waiting for changes; Ctrl-C ends it." in told
        assert "--set auto.offset.reset=earliest shows them" in told
        assert main([*ask, "--set", "auto.offset.reset=earliest"]) == 0
        assert "auto.offset.reset" not in capfd.readouterr().err


def test_a_query_without_a_limit_gets_one_in_its_own_words() -> None:
    assert bounded("SELECT * FROM t -- all of it\n;") == ("SELECT * FROM t\nLIMIT 1000;", True)
    for sql in ("SELECT * FROM t LIMIT 3;", "SELECT * FROM t EMIT CHANGES;", "SELCT 1"):
        assert bounded(sql) == (sql, False)


@pytest.mark.parametrize(
    ("name", "kind", "value", "shown"),
    [
        ("N", "BIGINT", 1234567, "1234567"),
        ("X", "DOUBLE", 1234567.25, "1234567.25"),
        ("D", "DECIMAL(10, 2)", Decimal("1234567.50"), "1234567.50"),
        ("B", "BOOLEAN", True, "true"),
        ("A", "ARRAY<INTEGER>", [1, 2], "[1,2]"),
        ("S", "STRING", None, "NULL"),
        ("WINDOWSTART", "BIGINT", 1735725600000, "2025-01-01T10:00:00.000Z"),
        ("AT", "TIMESTAMP", "2025-01-01T10:00:00.000", "2025-01-01T10:00:00.000Z"),
    ],
)
def test_values_are_plain_and_times_have_their_zone(
    name: str, kind: str, value: object, shown: str
) -> None:
    assert _cell(name, kind, value) == shown
