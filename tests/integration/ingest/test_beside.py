"""Headers and windowed keys of a real topic, read by a real Spark."""

from __future__ import annotations

from pyspark.sql import SparkSession

from holdfast.ingest.source import KafkaDataSource
from holdfast.local.broker import BrokerStatus
from holdfast.tasks.evaluate.keys import session_key
from holdfast.transport.idempotent_producer import Producer
from holdfast.types.ingest import DATA_SOURCE, IngestOptions
from holdfast.types.schema import BIGINT, STRING, Base, Column, SqlType
from holdfast.types.topology import (
    HEADERS_TYPE,
    WINDOW_END,
    WINDOW_START,
    HeaderColumn,
    Source,
    WindowKind,
)
from tests.integration.ingest import topics


def test_headers_and_windows_are_columns(kafka: BrokerStatus, spark: SparkSession) -> None:
    topic = topics.create(kafka.bootstrap_servers)
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    producer = Producer(client)
    producer.send(topic, session_key(b"a", 5, 9), b'{"v":1}', headers={"trace": b"t1", "no": None})
    producer.send(topic, session_key(b"b", 7, 7), b'{"v":2}')
    producer.flush()
    source = Source(
        "S",
        "STREAM",
        topic,
        (Column("K", STRING),),
        (Column("V", BIGINT),),
        headers=(
            HeaderColumn(Column("TRACE", SqlType(Base.BYTES)), "trace"),
            HeaderColumn(Column("H", HEADERS_TYPE), None),
        ),
        window=WindowKind.SESSION,
    )
    names = ("K", "V", "TRACE", "H", WINDOW_START, WINDOW_END)
    options = IngestOptions(source, client, names, transactional_id_prefix="beside")
    spark.dataSource.register(KafkaDataSource)
    frame = spark.read.format(DATA_SOURCE).options(**options.to_spark()).load()
    rows = sorted(tuple(r)[: len(names)] for r in frame.collect())
    assert rows == [
        ("a", 1, b"t1", [("trace", b"t1"), ("no", None)], 5, 9),
        ("b", 2, None, [], 7, 7),
    ]
