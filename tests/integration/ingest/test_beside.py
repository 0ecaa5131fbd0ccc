"""Headers and windowed keys of a real topic."""

from __future__ import annotations

from holdfast.ingest.ranges import KafkaRange
from holdfast.ingest.reading import read
from holdfast.local.broker import BrokerStatus
from holdfast.tasks.evaluate.keys import session_key
from holdfast.transport.idempotent_producer import Producer
from holdfast.types.columns.schema import BIGINT, STRING, Base, Column, SqlType
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.topology import (
    HEADERS_TYPE,
    WINDOW_END,
    WINDOW_START,
    HeaderColumn,
    Source,
    WindowKind,
)
from tests.integration.ingest import topics


def test_headers_and_windows_are_columns(kafka: BrokerStatus) -> None:
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
    (batch,) = read(options, KafkaRange(0, 0, 2))
    rows = [tuple(row[name] for name in names) for row in batch.to_pylist()]
    headers = [{"KEY": "trace", "VALUE": b"t1"}, {"KEY": "no", "VALUE": None}]
    assert rows == [("a", 1, b"t1", headers, 5, 9), ("b", 2, None, [], 7, 7)]
