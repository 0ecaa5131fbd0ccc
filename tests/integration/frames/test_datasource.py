"""Spark reads saved tables, and options are checked before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import InvalidConfig, InvalidStatement, Refused, RegistryUnavailable
from holdfast.frames import HoldfastSource
from holdfast.local.probe import free_port
from tests.integration.frames.conftest import Saved
from tests.integration.frames.statements import STATEMENTS, expected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPTIONS = {"uri": "/place", "table": "T", "savepoint": "a/b"}
LIVE = {"uri": "/place", "table": "T", "application": "a", "statements": "/none.sql"}


def _read(spark: SparkSession, **options: str) -> DataFrame:
    spark.dataSource.register(HoldfastSource)
    return spark.read.format("holdfast").options(**options).load()


def test_spark_reads_the_tables_of_a_savepoint(spark: SparkSession, saved: Saved) -> None:
    def read(table: str) -> DataFrame:
        return _read(spark, uri=saved.uri, savepoint=saved.reference, table=table)

    rich = read("rich")
    types = ["string", "decimal(8,2)", "timestamp", "array<string>", "bigint"]
    assert [kind for _, kind in rich.dtypes] == types
    assert rich.count() == len(expected("RICH", saved.events))
    assert rich.rdd.getNumPartitions() == 3
    rows = rich.selectExpr("SHOP", "DEAREST", "unix_millis(LAST_SINCE)", "ITEMS", "ROWTIME")
    wanted = [
        (shop, dearest, int(since.timestamp() * 1000), items, time)
        for shop, dearest, since, items, time in expected("RICH", saved.events)
    ]
    assert sorted(map(tuple, rows.collect())) == wanted
    visits = read("visits").where("SHOP = 's1'")
    wanted = [row for row in expected("VISITS", saved.events) if row[0] == "s1"]
    assert sorted(map(tuple, visits.collect())) == wanted
    assert wanted


def test_spark_reads_the_newest_snapshots_and_empty_tables(
    spark: SparkSession, saved: Saved, tmp_path: Path
) -> None:
    (tmp_path / "job.sql").write_text(STATEMENTS)
    for partition in range(3):
        saved.job.snapshot("ctas_totals", partition)
    live = {"application": "shop", "statements": str(tmp_path / "job.sql"), "table": "totals"}
    totals = _read(spark, uri=saved.uri, **live)
    assert sorted(map(tuple, totals.collect())) == expected("TOTALS", saved.events)
    saved.job.save("early", uncommitted=["TOTALS"])
    early = _read(spark, uri=saved.uri, savepoint="shop/early", table="totals")
    assert (early.columns, early.count()) == (totals.columns, 0)


def test_a_refusal_reaches_the_reader(spark: SparkSession, saved: Saved) -> None:
    with pytest.raises(Exception, match="read its topic NAMED"):
        _read(spark, uri=saved.uri, savepoint=saved.reference, table="named")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({**OPTIONS, "savepiont": "a/b"}, "no option savepiont.*did you mean savepoint"),
        ({**OPTIONS, "path": "/x"}, "no option path.*the options are uri, table"),
        ({**OPTIONS, "application": "a"}, "savepoint and application exclude each other"),
        ({"uri": "/place"}, "needs the option table and savepoint"),
        ({**OPTIONS, "uri": ""}, "needs the option uri"),
        ({"uri": "/p", "table": "T", "application": "a"}, "needs the option statements"),
        ({**OPTIONS, "schema.registry.uri": "x"}, "did you mean schema.registry.url"),
    ],
)
def test_options_are_checked(options: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidConfig, match=f"(?s){told}"):
        HoldfastSource(options).schema()


def test_the_registry_of_the_options_is_asked(tmp_path: Path) -> None:
    statements = tmp_path / "job.sql"
    statements.write_text(
        "CREATE STREAM s WITH (KAFKA_TOPIC='s', VALUE_FORMAT='AVRO');"
        "CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;"
    )
    nobody = f"http://127.0.0.1:{free_port()}"
    options = {**LIVE, "statements": str(statements), "schema.registry.url": nobody}
    with pytest.raises(RegistryUnavailable, match=f"The schema registry {nobody} does not answer"):
        HoldfastSource(options).schema()


def test_a_wrong_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidStatement, match=r"/none\.sql cannot be read"):
        HoldfastSource(LIVE).schema()
    with pytest.raises(Refused, match="has no savepoint b"):
        HoldfastSource({**OPTIONS, "uri": str(tmp_path)}).schema()
