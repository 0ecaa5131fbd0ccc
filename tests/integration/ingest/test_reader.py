"""PartitionReader against a real broker: bounds, gaps, markers, aborted records, lost offsets."""

from __future__ import annotations

import ctypes
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from holdfast.errors import DataLoss, KafkaUnavailable, TopicMissing
from holdfast.local.broker import BrokerStatus
from holdfast.transport.idempotent_producer import Producer
from holdfast.transport.reader import Chunk, PartitionReader
from tests.integration.ingest import topics


@pytest.fixture
def servers(kafka: BrokerStatus) -> str:
    return kafka.bootstrap_servers


@pytest.fixture
def topic(servers: str) -> str:
    return topics.create(servers)


@pytest.fixture
def reader(servers: str, topic: str) -> Iterator[PartitionReader]:
    reader = PartitionReader({"bootstrap.servers": servers}, topic, 0, timeout_s=10)
    yield reader
    reader.close()


def numbered(count: int, prefix: str = "v") -> list[tuple[bytes | None, bytes | None]]:
    return [(b"k%d" % i, f"{prefix}{i}".encode()) for i in range(count)]


def values(chunks: list[Chunk]) -> list[bytes | None]:
    return [v for c in chunks for v in c.values]


def wait_for_end(reader: PartitionReader, end: int) -> None:
    deadline = time.monotonic() + 15
    while reader.bounds()[1] < end:
        assert time.monotonic() < deadline, f"the end stayed at {reader.bounds()[1]}, not {end}"
        time.sleep(0.05)


def test_reads_a_range_in_chunks_with_keys_values_and_timestamps(
    servers: str, topic: str, reader: PartitionReader
) -> None:
    topics.produce(servers, topic, [*numbered(9), (None, None)], timestamp=1_700_000_000_000)
    assert reader.bounds() == (0, 10)
    chunks = list(reader.read(2, 10, chunk_records=3))
    assert [c.offsets for c in chunks] == [[2, 3, 4], [5, 6, 7], [8, 9]]
    assert [c.position for c in chunks] == [5, 8, 10]
    assert chunks[2].keys == [b"k8", None]
    assert chunks[2].values == [b"v8", None]
    assert chunks[0].timestamps == [1_700_000_000_000] * 3


def _produce_unreadable_name(servers: str, topic: str) -> None:
    """Writes a record whose header's name is no UTF-8, as a client in C may."""
    (file,) = Path(confluent_kafka.__file__).parents[1].glob("confluent_kafka.libs/librdkafka*")
    lib, why, size = ctypes.CDLL(str(file)), ctypes.create_string_buffer(512), ctypes.c_size_t
    lib.rd_kafka_conf_new.restype = lib.rd_kafka_new.restype = ctypes.c_void_p
    conf = ctypes.c_void_p(lib.rd_kafka_conf_new())
    lib.rd_kafka_conf_set(conf, b"bootstrap.servers", servers.encode(), why, size(512))
    client = ctypes.c_void_p(lib.rd_kafka_new(0, conf, why, size(512)))
    placed = (1, topic.encode(), 3, ctypes.c_int32(0), 4, b"v", size(1))
    assert lib.rd_kafka_producev(client, *placed, 9, b"\xff\xfe", b"x", size(1), 0) == 0
    assert lib.rd_kafka_flush(client, 10_000) == 0
    lib.rd_kafka_destroy(client)


def test_the_last_header_of_a_name_counts_and_unreadable_ones_stop_nobody(
    servers: str, topic: str, reader: PartitionReader
) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    sent: list[list[tuple[str, str | bytes | None]]] = [
        [], [("a", b"1"), ("b", b"2"), ("a", b"\xff")], [("b", b"3")], [("a", None)],
    ]  # fmt: skip
    for headers in sent:
        producer.produce(topic, b"v", partition=0, headers=headers)
    producer.flush()
    _produce_unreadable_name(servers, topic)
    producer.produce(topic, b"v", partition=0, headers=[("a", b"last")])
    producer.flush()
    (chunk,) = reader.read(0, 6)
    expected = [(1, b"\xff"), (2, None), (3, None), (5, b"last")]
    assert list(chunk.last_headers("a")) == expected
    with_headers = PartitionReader({"bootstrap.servers": servers}, topic, 0, headers=True)
    (chunk,) = with_headers.read(0, 4)
    assert list(Chunk.last_headers(chunk, "a")) == expected[:3]
    with_headers.close()


def test_successive_reads_continue_and_others_move(
    servers: str, topic: str, reader: PartitionReader
) -> None:
    topics.produce(servers, topic, numbered(100))
    spans = [(0, 10), (10, 55), (55, 100), (30, 31), (0, 100), (99, 100)]
    for start, end in spans:
        chunks = list(reader.read(start, end, chunk_records=20))
        assert [o for c in chunks for o in c.offsets] == list(range(start, end))
        assert chunks[-1].position == end


def test_a_read_given_up_half_way_leaves_no_records_behind(
    servers: str, topic: str, reader: PartitionReader
) -> None:
    topics.produce(servers, topic, numbered(50))
    first = next(reader.read(0, 50, chunk_records=10))
    assert first.position == 10
    again = list(reader.read(10, 50, chunk_records=100))
    assert [o for c in again for o in c.offsets] == list(range(10, 50))


def test_open_and_aborted_transactions_are_invisible_and_the_trailing_marker_is_passed(
    servers: str, topic: str, reader: PartitionReader
) -> None:
    topics.transaction(servers, topic, numbered(3, "good"))  # 0-2, marker 3
    topics.transaction(servers, topic, numbered(2, "bad"), commit=False)  # 4-5, marker 6
    wait_for_end(reader, 7)
    held = topics.open_transaction(servers, topic, numbered(2, "open"))  # 7-8
    assert reader.bounds() == (0, 7)
    began = time.monotonic()
    chunks = list(reader.read(0, 7))
    assert time.monotonic() - began < 9, "the trailing marker was waited for, which takes 10 s"
    assert values(chunks) == [b"good0", b"good1", b"good2"]
    assert chunks[-1].position == 7
    topics.end_transaction(servers, topic, held)
    wait_for_end(reader, 10)
    assert values(list(reader.read(7, 10))) == [b"open0", b"open1"]


def test_a_range_of_nothing_but_markers_ends(
    servers: str, topic: str, reader: PartitionReader
) -> None:
    topics.transaction(servers, topic, numbered(3), commit=False)  # 0-2, marker 3
    wait_for_end(reader, 4)
    first, second = list(reader.read(0, 2)), list(reader.read(2, 4))
    assert values(first) == values(second) == []
    assert (first[-1].position, second[-1].position) == (2, 4)


def test_compaction_gaps_are_passed(servers: str) -> None:
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "100",
    }
    topic = topics.create(servers, config=config)
    topics.produce(servers, topic, [(b"same", b"%d" % i) for i in range(500)])
    time.sleep(0.3)
    topics.produce(servers, topic, [(b"last", b"x")])  # closes the segment before
    reader = PartitionReader({"bootstrap.servers": servers}, topic, 0)
    deadline = time.monotonic() + 45
    while len(values(list(reader.read(0, 501)))) > 2:
        assert time.monotonic() < deadline, "the broker did not compact"
        time.sleep(0.5)
        reader.close()
    chunks = list(reader.read(0, 501))
    assert [o for c in chunks for o in c.offsets] == [499, 500]
    assert list(reader.read(3, 300))[-1].position == 300
    reader.close()


def test_start_below_the_log_start_is_data_loss(
    servers: str, topic: str, reader: PartitionReader
) -> None:
    topics.produce(servers, topic, numbered(20))
    topics.delete_records(servers, topic, 0, 12)
    with pytest.raises(DataLoss, match=rf"{topic} partition 0 offset 5 .* 12 to 20"):
        list(reader.read(5, 20))
    assert list(reader.read(12, 20))[-1].position == 20


@pytest.mark.parametrize(("start", "end", "named"), [(30, 40, 30), (5, 40, 40), (25, 25, 25)])
def test_beyond_the_end_is_data_loss(
    servers: str, topic: str, reader: PartitionReader, start: int, end: int, named: int
) -> None:
    topics.produce(servers, topic, numbered(20))
    with pytest.raises(DataLoss, match=rf"offset {named} .* 0 to 20"):
        list(reader.read(start, end))


def test_a_missing_topic_is_named(servers: str) -> None:
    reader = PartitionReader({"bootstrap.servers": servers}, "no-such-topic", 0, timeout_s=5)
    with pytest.raises(TopicMissing, match="no-such-topic partition 0"):
        reader.bounds()
    with pytest.raises(TopicMissing, match="no-such-topic partition 0"):
        list(reader.read(0, 1))
    reader.close()


def test_a_broker_that_is_gone_is_noticed_in_bounded_time() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]  # ours, but nobody listens
        reader = PartitionReader({"bootstrap.servers": f"127.0.0.1:{port}"}, "t", 0, timeout_s=2)
        with pytest.raises(KafkaUnavailable, match=r"127\.0\.0\.1.* reading topic t partition 0"):
            list(reader.read(0, 10))
        with pytest.raises(KafkaUnavailable):
            reader.bounds()
        reader.close()


def test_large_records_come_in_chunks_of_so_many_bytes(
    servers: str, topic: str, reader: PartitionReader
) -> None:
    """As many as of small ones would fill the memory of whoever reads them."""
    large = os.urandom(900_000)
    producer = Producer({"bootstrap.servers": servers})
    for n in range(100):
        producer.send(topic, b"k%d" % n, large, partition=0)
    producer.flush()
    chunks = list(reader.read(0, 100))
    assert [offset for c in chunks for offset in c.offsets] == list(range(100))
    assert chunks[-1].position == 100
    assert max(len(c) for c in chunks) * len(large) < 70_000_000
