"""Tables of savepoints and snapshots, read from real stores, beside plain Python."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.errors import (
    IncompatibleStatement,
    InvalidStatement,
    Refused,
    SnapshotDamaged,
)
from holdfast.frames import saved_tables
from holdfast.frames.saved_tables import SavedTable, of_savepoint, of_snapshots
from holdfast.transport.registry import MemoryRegistry
from holdfast.types.columns.schemas import Schema, SchemaKind
from tests.integration.frames.conftest import Saved
from tests.integration.frames.statements import (
    EXPECTED,
    STATEMENTS,
    Row,
    events_of,
    expected,
    saved_job,
)
from tests.support.jobs.saved_job import ATTEMPT, Event, SavedJob
from tests.support.servers.s3_server import S3Server


def rows_of(table: SavedTable) -> list[Row]:
    schema, rows = table.schema(), list[Row]()
    for partition in table.partitions:
        for batch in table.batches(partition):
            assert batch.schema.equals(schema)
            assert batch.num_rows > 0
            rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return sorted(rows)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_saved_table_has_the_rows_of_its_input(saved: Saved, name: str, fetched: Path) -> None:
    table = of_savepoint(saved.uri, saved.reference).table(name)
    assert rows_of(table) == expected(name, saved.events)
    assert list(fetched.iterdir()) == []


def test_a_schema_has_keys_windows_values_and_rowtime(saved: Saved) -> None:
    tables = of_savepoint(saved.uri, saved.reference)
    assert tables.table("by_minute").schema() == pa.schema(
        {"SHOP": pa.string(), "WINDOWSTART": pa.int64(), "WINDOWEND": pa.int64(),
         "MANY": pa.int64(), "ROWTIME": pa.int64()}
    )  # fmt: skip
    assert tables.table("rich").schema() == pa.schema(
        {"SHOP": pa.string(), "DEAREST": pa.decimal128(8, 2),
         "LAST_SINCE": pa.timestamp("us", tz="UTC"), "ITEMS": pa.list_(pa.string()),
         "ROWTIME": pa.int64()}
    )  # fmt: skip


def test_statements_without_columns_need_the_registry(saved: Saved) -> None:
    text = """CREATE STREAM sales WITH (KAFKA_TOPIC='sales', VALUE_FORMAT='AVRO');
    CREATE TABLE totals AS SELECT shop, COUNT(*) AS many FROM sales GROUP BY shop;"""
    registry = MemoryRegistry()
    fields = '[{"name": "shop", "type": "string"}]'
    record = f'{{"type": "record", "name": "R", "fields": {fields}}}'
    registry.register("sales-value", Schema(SchemaKind.AVRO, record))
    found = of_snapshots(saved.uri, "app", text, schemas=registry)
    assert found.names == ("TOTALS",)
    with pytest.raises(InvalidStatement, match="ask the schema registry, and there is none"):
        of_snapshots(saved.uri, "app", text)


def test_names_are_those_of_sql(saved: Saved) -> None:
    tables = of_savepoint(saved.uri, saved.reference)
    assert tables.names == tuple(EXPECTED)
    assert tables.table("totals").name == tables.table("TOTALS").name == "TOTALS"
    assert tables.table("`Lower`").name == tables.table("Lower").name == "Lower"
    with pytest.raises(
        InvalidStatement, match=r"(?s)There is no table lower.*did you mean `Lower`"
    ):
        tables.table("lower")
    with pytest.raises(
        InvalidStatement, match=r"(?s)There is no table TOTALLS.*did you mean TOTALS"
    ):
        tables.table("TOTALLS")
    with pytest.raises(InvalidStatement, match="There is no table `totals`"):
        tables.table("`totals`")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("named", "state of a join, or of a table over a table.*read its topic NAMED"),
        ("last_minute", "not final yet.*read its topic LAST_MINUTE"),
        ("names", "the job keeps no rows of it.*read names"),
        ("large", "is a stream"),
        ("sales", "is a stream"),
    ],
)
def test_what_is_no_table_of_stored_rows_is_refused(saved: Saved, name: str, why: str) -> None:
    with pytest.raises(Refused, match=f"(?s){why}"):
        of_savepoint(saved.uri, saved.reference).table(name)


def test_state_partitions_may_be_empty_and_rows_come_in_pieces(
    saved: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_tables, "_ROWS", 4)
    tables = of_savepoint(saved.uri, saved.reference)
    one = tables.table("ONE")
    assert sorted(p.rows or 0 for p in one.partitions) == [0, 0, 1]
    assert sum(len(list(one.batches(p))) for p in one.partitions) == 1
    totals = tables.table("TOTALS")
    sizes = [b.num_rows for p in totals.partitions for b in totals.batches(p)]
    assert max(sizes) == 4
    assert sum(sizes) == len(expected("TOTALS", saved.events))
    monkeypatch.setattr(saved_tables, "_BYTES", 1)
    assert {b.num_rows for b in totals.batches(totals.partitions[0])} == {1}


def test_a_table_without_commits_has_columns_and_no_rows(saved: Saved) -> None:
    saved.job.save("early", uncommitted=["TOTALS"])
    table = of_savepoint(saved.uri, "shop/early").table("TOTALS")
    assert table.partitions == ()
    assert table.schema().names == ["SHOP", "MANY", "TOTAL", "TWICE", "ROWTIME"]


def test_a_table_can_be_sent_to_another_process(saved: Saved) -> None:
    table = of_savepoint(saved.uri, saved.reference).table("RICH")
    assert rows_of(pickle.loads(pickle.dumps(table))) == expected("RICH", saved.events)


def test_an_iterator_that_is_given_up_leaves_nothing(
    saved: Saved, fetched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_tables, "_ROWS", 1)
    table = of_savepoint(saved.uri, saved.reference).table("TOTALS")
    batches = table.batches(table.partitions[0])
    next(batches)
    assert len(list(fetched.iterdir())) == 1
    batches.close()  # type: ignore[attr-defined]
    assert list(fetched.iterdir()) == []


def test_a_damaged_file_is_named(tmp_path: Path, fetched: Path) -> None:
    job = saved_job(tmp_path / "job", events_of(50, seed=2))
    made = job.save("first")
    query = next(q for q in made.queries if q.sink == "TOTALS")
    file = max(query.stores[1].manifest.files, key=lambda f: f.size)
    path = Path(job.uri, f"shop/savepoints/first/{ATTEMPT}/{query.id}/1/files/{file.sha256}")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    table = of_savepoint(job.uri, "shop/first").table("TOTALS")
    assert list(table.batches(table.partitions[0]))
    with pytest.raises(SnapshotDamaged, match=f"State partition 1 of TOTALS.*{file.name}"):
        list(table.batches(table.partitions[1]))
    path.unlink()
    with pytest.raises(SnapshotDamaged, match=f"(?s)TOTALS.*{file.sha256}.*another savepoint"):
        list(table.batches(table.partitions[1]))
    assert list(fetched.iterdir()) == []
    job.close()


def test_rows_of_another_statement_are_refused(saved: Saved) -> None:
    changed = STATEMENTS.replace("SUM(n) AS total", "MAX(n) AS total")
    for partition in range(3):
        saved.job.snapshot("ctas_totals", partition)
    assert rows_of(of_snapshots(saved.uri, "shop", STATEMENTS).table("TOTALS"))
    table = of_snapshots(saved.uri, "shop", changed).table("TOTALS")
    with pytest.raises(IncompatibleStatement, match="written by another statement"):
        rows_of(table)


FUNCTIONS = """
from holdfast import aggregate

@aggregate("LONGEST", args=["STRING"], returns="STRING")
class Longest:
    def init(self): return ""
    def update(self, s, x): return max(s, x or "", key=len)
    def merge(self, a, b): return max(a, b, key=len)
    def finish(self, s): return s
"""
LONGEST = """
CREATE STREAM sales (shop STRING KEY, item STRING)
  WITH (KAFKA_TOPIC='sales', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE longest AS SELECT shop, LONGEST(item) AS item FROM sales GROUP BY shop EMIT CHANGES;
"""
_UNKNOWN = """
from holdfast.errors import InvalidStatement
from holdfast.frames.saved_tables import of_savepoint
try:
    of_savepoint({uri!r}, "shop/first")
except InvalidStatement as error:
    print(error)
"""


def test_user_defined_aggregates_need_their_file(tmp_path: Path) -> None:
    file = tmp_path / "functions.py"
    file.write_text(FUNCTIONS)
    job = SavedJob(tmp_path / "job", LONGEST, functions=(str(file),))
    items = ["a", "bbb", "cc"]
    job.feed([Event("s", {"ITEM": item}, n) for n, item in enumerate(items)])
    job.save("first")
    job.close()
    table = of_savepoint(job.uri, "shop/first", [str(file)]).table("LONGEST")
    assert rows_of(table) == [("s", "bbb", 2)]
    script = _UNKNOWN.format(uri=job.uri)  # in a process where nobody has registered it
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert b"LONGEST" in told.stdout
    assert b"give their Python files (functions)" in told.stdout


def test_the_newest_snapshots_are_read(tmp_path: Path) -> None:
    events = events_of(300, seed=3)
    job = saved_job(tmp_path, events[:200])
    for partition in range(3):
        job.snapshot("ctas_totals", partition)
    job.feed(events[200:])
    for partition in range(3):
        job.snapshot("ctas_totals", partition, taken_ms=2_000)
    job.close()
    table = of_snapshots(job.uri, "shop", STATEMENTS).table("TOTALS")
    assert rows_of(table) == expected("TOTALS", events)
    folder = Path(job.uri, "shop/ctas_totals/0/manifests")
    max(folder.iterdir()).write_bytes(b"{}")
    older = of_snapshots(job.uri, "shop", STATEMENTS).table("TOTALS")
    offsets = [p.manifest.position.offset for p in older.partitions]
    assert offsets == [200, 300, 300], "the newest that can be read"


def test_a_table_is_refused_until_every_state_partition_has_a_snapshot(tmp_path: Path) -> None:
    job = saved_job(tmp_path, events_of(50, seed=4))
    tables = of_snapshots(job.uri, "shop", STATEMENTS)
    with pytest.raises(Refused, match="snapshots of no state partition of TOTALS"):
        tables.table("TOTALS")
    job.snapshot("ctas_totals", 1)
    with pytest.raises(Refused, match="snapshots of 1 of TOTALS: not of the whole table"):
        tables.table("TOTALS")
    job.snapshot("ctas_totals", 0)
    with pytest.raises(Refused, match="3 state partitions, of which 2 have snapshots"):
        rows_of(tables.table("TOTALS"))
    job.snapshot("ctas_totals", 2, topic_id="another")
    with pytest.raises(Refused, match="of 2 changelog topics"):
        tables.table("TOTALS")
    job.snapshot("ctas_totals", 2, taken_ms=3_000)
    assert len(tables.table("TOTALS").partitions) == 3
    job.close()


def test_tables_are_read_from_s3(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    s3.make_bucket("frames")
    events = events_of(50, seed=6)
    job = saved_job(tmp_path, events)
    job.uri = s3.uri("frames", "jobs of a team")
    job.save("first")
    for partition in range(3):
        job.snapshot("ctas_visits", partition)
    job.close()
    for tables in (of_savepoint(job.uri, "shop/first"), of_snapshots(job.uri, "shop", STATEMENTS)):
        assert rows_of(tables.table("VISITS")) == expected("VISITS", events)


def test_a_savepoint_that_is_not_there_is_refused(saved: Saved) -> None:
    with pytest.raises(Refused, match="has no savepoint second"):
        of_savepoint(saved.uri, "shop/second")


def test_saved_tables_are_read_without_spark() -> None:
    script = (
        "import sys, holdfast.frames, holdfast.frames.saved_tables\n"
        "assert not [m for m in sys.modules if m.startswith('pyspark')]"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
