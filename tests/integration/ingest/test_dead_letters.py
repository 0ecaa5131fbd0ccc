"""Undecodable records: each in the dead-letter topic exactly once, whatever is read again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256

import pytest

from holdfast.errors import Retriable, UndecodableRecord
from holdfast.ingest import reading
from holdfast.ingest.dead_letters import DeadLetters
from holdfast.ingest.ranges import KafkaRange
from holdfast.ingest.records import BadRecord
from holdfast.local.broker import BrokerStatus
from holdfast.sql import compile_text
from holdfast.state.topics.source_progress import Of, SourceProgress, progress_of
from holdfast.tasks.pack.packing import from_arrow, unpacked
from holdfast.tasks.processors.base import SIDE, row_schema
from holdfast.transport.cluster.topic_settings import TopicSettings
from holdfast.transport.idempotent_producer import Producer
from holdfast.transport.sizes import record_bytes
from holdfast.types.columns.schema import BIGINT, INTEGER, STRING, Column
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.sources import Format, Source
from tests.integration.ingest import topics

GOOD = b'{"n": 1}'


@pytest.fixture
def servers(kafka: BrokerStatus) -> str:
    return kafka.bootstrap_servers


@pytest.fixture
def options(servers: str) -> IngestOptions:
    topic, letters = topics.create(servers), topics.create(servers)
    source = Source("S", "STREAM", topic, (Column("K", INTEGER),), (Column("N", BIGINT),))
    return IngestOptions(
        source,
        {"bootstrap.servers": servers},
        ("N",),
        dead_letter_topic=letters,
        progress_topic=topics.create(servers),
        transactional_id_prefix=f"app-{topic}",
    )


def read(options: IngestOptions, start: int, end: int) -> list[int]:
    """Offsets of the good records, read as an executor does."""
    batches = reading.read(options, KafkaRange(0, start, end))
    return [offset for b in batches for offset in b.column("__offset").to_pylist()]


def bad_offsets(servers: str, options: IngestOptions) -> list[int]:
    letters = topics.letters(servers, options.dead_letter_topic)
    return [int(letter.headers["holdfast.offset"]) for letter in letters]


def key(n: int) -> bytes:
    return n.to_bytes(4, "big")


def test_a_letter_is_the_record_unchanged_with_its_story(
    servers: str, options: IngestOptions
) -> None:
    records = [(key(1), GOOD), (b"\xffkey", b"\x00 not JSON"), (key(2), GOOD), (b"", None)]
    topics.produce(servers, options.source.topic, records, timestamp=1_700_000_000_000)
    wanted = IngestOptions(**{**vars(options), "columns": ("K", "N")})
    assert read(wanted, 0, 4) == [0, 2]
    first, second = topics.letters(servers, options.dead_letter_topic)
    assert (first.key, first.value) == (b"\xffkey", b"\x00 not JSON")
    assert (second.key, second.value) == (b"", None)
    assert second.headers["holdfast.reason"] == "key: 0 bytes, but INTEGER takes 4"
    assert first.headers == {
        "holdfast.reason": "value: not valid JSON at character 0: Expecting value",
        "holdfast.topic": options.source.topic,
        "holdfast.partition": "0",
        "holdfast.offset": "1",
        "holdfast.timestamp": "1700000000000",
        "holdfast.query": options.transactional_id_prefix,
    }


def test_messages_that_are_none_are_letters_and_the_large_ones_come_through(
    servers: str, options: IngestOptions
) -> None:
    """Groups 400,000 deep end a process whose parser follows them."""
    options = replace(
        options,
        columns=("K", "N"),
        source=replace(
            options.source,
            key_columns=(Column("K", INTEGER),),
            value_columns=(Column("N", BIGINT), Column("S", STRING)),
            key_format=Format.PROTOBUF_NOSR,
            value_format=Format.PROTOBUF_NOSR,
        ),
    )
    size = 900_000
    large = b"\x08\x01\x12" + bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14])
    bad = {1: b"\xff\xff", 2: b"\x08", 4: b"\x1b" * 400_000}
    good = {0: b"\x08\x07", 3: b"", 5: large + b"x" * size, 6: None}
    values = [value for _, value in sorted({**good, **bad}.items())]
    records = [(b"\x08\x01", value) for value in values]
    topics.produce(servers, options.source.topic, [*records, (b"\x0f", b"")])
    assert read(options, 0, 8) == [0, 3, 5, 6]
    assert bad_offsets(servers, options) == [1, 2, 4, 7]
    letters = topics.letters(servers, options.dead_letter_topic)
    assert letters[2].value == bad[4]
    assert letters[0].headers["holdfast.reason"].startswith("value: ")
    assert letters[3].headers["holdfast.reason"].startswith("key: ")


def test_reading_again_writes_no_letter_twice_and_misses_none(
    servers: str, options: IngestOptions
) -> None:
    records = [(None, GOOD if i % 3 else b"bad %d" % i) for i in range(30)]
    topics.produce(servers, options.source.topic, records)
    good = [i for i in range(30) if i % 3]
    assert read(options, 0, 15) == [i for i in good if i < 15]
    assert read(options, 0, 15) == [i for i in good if i < 15]
    assert read(options, 6, 30) == [i for i in good if i >= 6]
    assert read(options, 0, 30) == good
    assert bad_offsets(servers, options) == list(range(0, 30, 3))
    place = ({"bootstrap.servers": servers}, options.progress_topic, 1)
    assert progress_of(*place, Of.DEAD_LETTERS, 0) == SourceProgress(
        options.source.topic, 0, offset=28, records=10
    )
    assert progress_of(*place, Of.RECORDS, 0) is None


def test_a_read_given_up_half_way_is_finished_by_the_next(
    servers: str, options: IngestOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.produce(servers, options.source.topic, [(None, b"bad"), (None, GOOD)] * 5)
    from holdfast.transport.producer import TransactionalProducer

    def crash(self: TransactionalProducer) -> None:
        raise KeyboardInterrupt  # as a kill: after the letters are sent, before the commit

    with monkeypatch.context() as patch:
        patch.setattr(TransactionalProducer, "commit", crash)
        with pytest.raises(KeyboardInterrupt):
            read(options, 0, 10)
    assert topics.letters(servers, options.dead_letter_topic, settled=False) == []
    assert read(options, 0, 10) == [1, 3, 5, 7, 9]
    assert bad_offsets(servers, options) == [0, 2, 4, 6, 8]


@pytest.fixture
def zombie(options: IngestOptions) -> Iterator[DeadLetters]:
    zombie = DeadLetters(options, 0)
    yield zombie
    zombie.close()


def test_an_attempt_that_was_overtaken_writes_nothing(
    servers: str, options: IngestOptions, zombie: DeadLetters
) -> None:
    def letter(offset: int) -> BadRecord:
        return BadRecord(None, b"bad", offset, 0, "test")

    assert zombie.write([letter(3)]) == 1
    newer = DeadLetters(options, 0)
    assert newer.write([letter(3), letter(5)]) == 1
    with pytest.raises(Retriable):
        zombie.write([letter(5)])
    assert newer.write([letter(7)]) == 1
    newer.close()
    assert bad_offsets(servers, options) == [3, 5, 7]


def test_policy_fail_names_the_record(servers: str, options: IngestOptions) -> None:
    strict = IngestOptions(**{**vars(options), "on_undecodable": "fail"})
    records = [(b"k1", GOOD), (b"k2", b'{"n": "x"}' + b" " * 200)]
    topics.produce(servers, options.source.topic, records)
    told = (
        rf"{options.source.topic} partition 0 offset 1 cannot be decoded: value: N: 'x' is not an "
        r"integer\. Key b'k2', value b'\{\"n\": \"x\"\} .* \(210 bytes\)"
    )
    with pytest.raises(UndecodableRecord, match=told):
        read(strict, 0, 2)
    assert bad_offsets(servers, options) == []


def test_the_inputs_of_a_query_keep_their_letters_apart(
    servers: str, options: IngestOptions
) -> None:
    source = replace(options.source, name="OTHER", topic=topics.create(servers))
    other = replace(options, source=source, side=1)
    both = replace(options, others=(other,))
    topics.produce(servers, options.source.topic, [(None, GOOD)] * 8 + [(None, b"bad a")])
    topics.produce(servers, source.topic, [(None, b"bad b"), (None, GOOD)])
    for _ in range(2):
        for part in (KafkaRange(0, 0, 9), KafkaRange(0, 0, 2, side=1)):
            list(reading.read(both, part))
    letters = topics.letters(servers, options.dead_letter_topic)
    assert sorted(letter.value or b"" for letter in letters) == [b"bad a", b"bad b"]


def test_a_self_join_s_letters_are_written_once(servers: str, options: IngestOptions) -> None:
    topic = options.source.topic
    query = compile_text(f"""
        CREATE STREAM s (k INTEGER KEY, n BIGINT) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON');
        CREATE STREAM o AS SELECT a.k, b.n FROM s a JOIN s b WITHIN 1 HOUR ON a.k = b.k;
    """).queries[0]
    topics.produce(servers, topic, [(key(1), b"bad"), (key(1), GOOD)])
    wanted = replace(options, columns=("K", "N"), query=query)
    blobs = list(reading.read_packed(wanted, query, 1, KafkaRange(0, 0, 2)))
    sides = [from_arrow(each, row_schema(query.inputs))[SIDE].to_pylist()
             for each in unpacked(blob for _, blob in blobs).values()]  # fmt: skip
    assert sides == [[0, 1]], "one record for both sides"
    assert len(topics.letters(servers, options.dead_letter_topic)) == 1


def test_a_query_with_state_sets_its_bad_records_aside(
    servers: str, options: IngestOptions
) -> None:
    topic = options.source.topic
    query = compile_text(f"""
        CREATE STREAM s (k INTEGER KEY, n BIGINT) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON');
        CREATE TABLE t AS SELECT k, SUM(n) AS total FROM s GROUP BY k;
    """).queries[0]
    wanted = replace(options, columns=("K", "N"), query=query)
    topics.produce(servers, topic, [(key(1), GOOD), (key(1), b"bad"), (b"no", GOOD)])
    for _ in range(2):
        assert len(list(reading.read_packed(wanted, query, 4, KafkaRange(0, 0, 3)))) == 1
    assert bad_offsets(servers, options) == [1, 2]


def send(servers: str, topic: str, *values: bytes, key: bytes = b"key1") -> None:
    producer = Producer({"bootstrap.servers": servers})
    for value in values:
        producer.send(topic, key, value, partition=0)
    producer.flush()


def test_a_record_as_large_as_its_topic_takes_is_kept_whole(
    servers: str, options: IngestOptions
) -> None:
    bad = os.urandom(1_030_000)  # cannot be compressed, and is more than a client's default
    send(servers, options.source.topic, GOOD, bad, GOOD)
    assert read(options, 0, 3) == [0, 2]
    (letter,) = topics.letters(servers, options.dead_letter_topic)
    assert letter.value == bad


def test_what_does_not_fit_is_told_by_its_head_size_and_hash(
    servers: str, options: IngestOptions
) -> None:
    narrow = topics.create(servers, config={"max.message.bytes": "5000"})
    options = replace(options, dead_letter_topic=narrow)
    large, key = os.urandom(700_000), os.urandom(20_000)
    source = options.source.topic
    send(servers, source, GOOD, large, b"small and bad")
    send(servers, source, b"", key=key)
    send(servers, source, GOOD)
    wanted = replace(options, columns=("K", "N"))
    assert read(wanted, 0, 5) == [0, 4]
    first, second, third = topics.letters(servers, narrow)
    assert (first.key, first.value) == (b"key1", large[:1_024])
    assert first.headers["holdfast.value.bytes"] == "700000"
    assert first.headers["holdfast.value.sha256"] == sha256(large).hexdigest()
    assert (first.headers["holdfast.offset"], first.headers["holdfast.topic"]) == ("1", source)
    assert second.value == b"small and bad"
    assert "holdfast.value.bytes" not in second.headers
    assert third.key == key[:1_024]
    assert third.headers["holdfast.key.bytes"] == "20000"
    assert third.headers["holdfast.key.sha256"] == sha256(key).hexdigest()


def test_letters_that_fit_to_the_byte_and_many_of_them_are_whole(
    servers: str, options: IngestOptions
) -> None:
    """The computed size of a letter is never too small, alone or in a batch."""
    narrow = topics.create(servers, config={"max.message.bytes": "5000"})
    options = replace(options, dead_letter_topic=narrow)
    send(servers, options.source.topic, *(os.urandom(n) for n in range(4_100, 4_700, 10)))
    assert read(options, 0, 60) == []
    letters = topics.letters(servers, narrow)
    sizes = [record_bytes(le.key, le.value, list(le.headers.items())) for le in letters]
    assert max(sizes) > 4_980
    cut = [letter for letter in letters if "holdfast.value.bytes" in letter.headers]
    assert 0 < len(cut) < 60
    assert len(letters) == 60
    assert [int(letter.headers["holdfast.offset"]) for letter in letters] == list(range(60))


def test_a_limit_that_is_lowered_meanwhile_stops_nothing(
    servers: str, options: IngestOptions
) -> None:
    letters = DeadLetters(options, 0)
    assert letters.write([BadRecord(b"k", b"bad", 0, 0, "test")]) == 1
    settings = TopicSettings({"bootstrap.servers": servers})
    settings.alter(options.dead_letter_topic, {"max.message.bytes": "5000"})
    large = os.urandom(300_000)
    bad = [BadRecord(b"k", large, 1, 0, "test"), BadRecord(b"k", b"bad too", 2, 0, "test")]
    assert letters.write(bad) == 2
    assert letters.write([BadRecord(b"k", large, 3, 0, "test")]) == 1
    letters.close()
    found = topics.letters(servers, options.dead_letter_topic)
    assert [letter.value for letter in found] == [b"bad", large[:1_024], b"bad too", large[:1_024]]
