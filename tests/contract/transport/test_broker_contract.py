"""The broker behaviour the engine relies on, checked on the simulation's fake and a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from holdfast.errors import DataLoss, Fenced, TopicMissing
from holdfast.transport.reader import Chunk
from tests.contract.transport.brokers import Broker, FakeBroker, RealBroker

_SEEDS = range(4)  # the fake does what it does by itself at different times


@pytest.fixture(params=["real", *(f"fake-{seed}" for seed in _SEEDS)])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    kind = str(request.param)
    if kind != "real":
        yield FakeBroker(int(kind.removeprefix("fake-")))
        return
    real = RealBroker(request.getfixturevalue("kafka"))
    yield real
    real.close()


@pytest.fixture
def topic(broker: Broker, kafka_topic_name: Callable[[str], str]) -> str:
    return broker.admin.ensure_topic(kafka_topic_name("t"), 2).name


def read(broker: Broker, topic: str, partition: int = 0) -> Chunk:
    """Everything committed."""
    broker.settle(topic)
    reader = broker.reader(topic, partition)
    chunks = list(reader.read(*reader.bounds()))
    assert len(chunks) == 1
    return chunks[0]


def write(broker: Broker, topic: str, *keys: bytes, name: str = "writer") -> None:
    """One committed transaction."""
    producer = broker.producer(f"{topic}-{name}")
    producer.begin()
    producer.send(topic, 0, keys, keys)
    producer.commit()
    producer.close()


# -- transactions ------------------------------------------------------------------------------


def test_a_commit_shows_all_of_a_transaction_and_tells_its_marker_s_offset(
    broker: Broker, topic: str
) -> None:
    producer = broker.producer(topic)
    producer.begin()
    producer.send(topic, [0, 1, 0], [b"a", b"b", b"c"], [b"1", b"2", None], [7, 8, 9])
    producer.send_marker(topic, 0, b"marker", b"m")
    assert producer.commit() == 2
    left, right = read(broker, topic), read(broker, topic, 1)
    assert left.keys == [b"a", b"c", b"marker"]
    assert left.values == [b"1", None, b"m"]
    assert left.offsets == [0, 1, 2]
    assert left.timestamps[:2] == [7, 9]
    assert (right.keys, right.timestamps) == ([b"b"], [8])


def test_the_first_millisecond_of_all_is_written_as_the_one_after_it(
    broker: Broker, topic: str
) -> None:
    """To the client a time of 0 is now: no record may get the wall clock for its event time."""
    producer = broker.producer(topic)
    producer.begin()
    producer.send(topic, 0, [b"a", b"b", b"c"], [b"1", b"2", b"3"], [0, 1, 2])
    producer.send(topic, 0, [b"d"], [b"4"], 0)
    producer.send(topic, 0, [b"e"], [b"5"])
    producer.commit()
    *early, now = read(broker, topic).timestamps
    assert early == [1, 1, 2, 1]
    assert now > 2


def test_without_a_marker_a_commit_tells_no_offset(broker: Broker, topic: str) -> None:
    producer = broker.producer(topic)
    producer.begin()
    producer.send(topic, 0, [b"a"], [b"1"])
    assert producer.commit() is None


def test_a_control_record_takes_an_offset_and_is_given_to_nobody(
    broker: Broker, topic: str
) -> None:
    write(broker, topic, b"a")
    write(broker, topic, b"b")
    chunk = read(broker, topic)
    assert (chunk.offsets, chunk.position) == ([0, 2], 4)
    assert broker.admin.bounds(topic) == {0: (0, 4), 1: (0, 0)}


def test_aborted_records_are_never_seen_and_keep_their_offsets(broker: Broker, topic: str) -> None:
    producer = broker.producer(topic)
    producer.begin()
    producer.send(topic, 0, [b"gone"] * 3, [b"1"] * 3)
    broker.deliver(producer)
    producer.abort()
    chunk = read(broker, topic)
    assert (chunk.keys, chunk.position) == ([], 4)
    producer.begin()
    producer.send(topic, 0, [b"kept"], [b"1"])
    producer.commit()
    assert read(broker, topic).offsets == [4]


def test_closing_aborts_an_open_transaction(broker: Broker, topic: str) -> None:
    producer = broker.producer(topic)
    producer.begin()
    producer.send(topic, 0, [b"gone"], [b"1"])
    broker.deliver(producer)
    producer.close()
    assert read(broker, topic).keys == []
    with pytest.raises(Fenced):
        producer.begin()


def test_an_open_transaction_holds_back_everything_after_it(broker: Broker, topic: str) -> None:
    slow = broker.producer(f"{topic}-slow")
    slow.begin()
    slow.send(topic, 0, [b"slow"], [b"1"])
    broker.deliver(slow)
    write(broker, topic, b"quick")
    admin = broker.admin
    broker.await_that(lambda: admin.high_watermarks(topic)[0] == 3)
    assert admin.end_offsets(topic) == {0: 0, 1: 0}
    assert broker.reader(topic).bounds() == (0, 0)
    slow.commit()
    assert read(broker, topic).keys == [b"slow", b"quick"]


def test_a_successor_fences_and_what_was_left_open_is_aborted_at_once(
    broker: Broker, topic: str
) -> None:
    zombie = broker.producer(topic)
    zombie.begin()
    zombie.send(topic, 0, [b"zombie"], [b"1"])
    broker.deliver(zombie)
    successor = broker.producer(topic)
    assert broker.reader(topic).bounds() == (0, 2), "not before the control record is there"
    successor.begin()
    successor.send(topic, 0, [b"heir"], [b"1"])
    with pytest.raises(Fenced):
        zombie.commit()
    successor.commit()
    assert read(broker, topic).keys == [b"heir"]


def test_a_zombie_that_begins_after_its_successor_writes_nothing(
    broker: Broker, topic: str
) -> None:
    zombie = broker.producer(topic)
    broker.producer(topic)

    def whole() -> None:  # who notices depends on what the client has heard
        zombie.begin()
        zombie.send(topic, 0, [b"zombie"], [b"1"])
        zombie.send_marker(topic, 0, b"marker", b"m")
        zombie.commit()

    with pytest.raises(Fenced):
        whole()
    assert broker.admin.high_watermarks(topic) == {0: 0, 1: 0}


def test_a_successor_sees_the_whole_of_what_was_committed_before_it(
    broker: Broker, topic: str
) -> None:
    for n in range(5):
        producer = broker.producer(topic)
        assert broker.reader(topic).bounds() == (0, 2 * n)
        producer.begin()
        producer.send_marker(topic, 0, b"marker", b"%d" % n)
        assert producer.commit() == 2 * n


def test_the_broker_aborts_a_transaction_whose_time_is_over(broker: Broker, topic: str) -> None:
    late = broker.producer(topic, 2_000)
    late.begin()
    late.send(topic, 0, [b"late"], [b"1"])
    broker.deliver(late)
    broker.await_that(lambda: broker.admin.end_offsets(topic)[0] == 2)
    with pytest.raises(Fenced):
        late.commit()
    assert read(broker, topic).keys == []


def test_what_becomes_of_an_unanswered_commit_is_settled_by_its_successor(
    broker: Broker, topic: str
) -> None:
    producer = broker.producer(topic, 3_000)
    producer.begin()
    producer.send(topic, [0, 1], [b"a", b"b"], [b"1", b"2"])
    broker.lose_answer(producer)
    broker.producer(topic)
    bounds = broker.admin.bounds(topic)
    found = [read(broker, topic, p).keys for p in (0, 1)]
    assert found in ([[b"a"], [b"b"]], [[], []]), "all of it or nothing"
    write(broker, topic, b"next")
    assert read(broker, topic).keys == [*found[0], b"next"]
    assert broker.admin.bounds(topic)[1] == bounds[1]


def test_columns_of_different_lengths_are_refused(broker: Broker, topic: str) -> None:
    producer = broker.producer(topic)
    producer.begin()
    with pytest.raises(ValueError, match="columns"):
        producer.send(topic, 0, [b"a", b"b"], [b"1"])


# -- reading -----------------------------------------------------------------------------------


def test_chunks_follow_each_other_to_the_end(broker: Broker, topic: str) -> None:
    write(broker, topic, b"a", b"b", b"c")
    write(broker, topic, b"d")
    broker.settle(topic)
    chunks = list(broker.reader(topic).read(1, 6, chunk_records=2))
    assert [c.offsets for c in chunks] == [[1, 2], [4]]
    assert chunks[-1].position == 6
    assert chunks[0].position in {3, 4}, "a control record may be passed or not"


def test_a_range_without_records_is_one_empty_chunk_that_is_passed(
    broker: Broker, topic: str
) -> None:
    write(broker, topic, b"a")
    broker.settle(topic)
    reader = broker.reader(topic)
    assert [(c.offsets, c.position) for c in reader.read(1, 2)] == [([], 2)]
    assert list(reader.read(2, 2)) == []


def test_reading_what_is_not_there_is_data_loss(broker: Broker, topic: str) -> None:
    write(broker, topic, b"a", b"b", b"c")
    broker.settle(topic)
    with pytest.raises(DataLoss, match="offset 9 is wanted but offsets 0 to 4"):
        list(broker.reader(topic, timeout_s=2.0).read(0, 9))
    with pytest.raises(DataLoss, match="offset 7 is wanted"):
        list(broker.reader(topic).read(7, 7))
    broker.delete_before(topic, 2)
    broker.await_that(lambda: broker.admin.bounds(topic)[0] == (2, 4))
    with pytest.raises(DataLoss, match="offset 1 is wanted but offsets 2 to 4"):
        list(broker.reader(topic).read(1, 4))
    assert read(broker, topic).keys == [b"c"]


def test_a_missing_topic_is_told(broker: Broker, topic: str) -> None:
    with pytest.raises(TopicMissing):
        broker.reader(f"{topic}-not").bounds()
    with pytest.raises(TopicMissing):
        broker.admin.bounds(f"{topic}-not")
    assert broker.admin.describe(f"{topic}-not") is None
    producer = broker.producer(topic)

    def astray() -> None:  # who notices depends on what the client knows
        producer.begin()
        producer.send(topic, 9, [b"a"], [b"1"])
        producer.commit()

    with pytest.raises(TopicMissing):
        astray()


# -- topics and groups -------------------------------------------------------------------------


def test_a_topic_made_anew_has_another_id_and_is_empty(broker: Broker, topic: str) -> None:
    admin = broker.admin
    before = admin.ensure_topic(topic, 5)
    assert before.partitions == 2, "an existing topic is left as it is"
    write(broker, topic, b"a")
    admin.delete_topic(topic)
    assert admin.describe(topic) is None
    after = admin.ensure_topic(topic, 1)
    assert after.topic_id != before.topic_id
    broker.await_that(lambda: admin.bounds(topic) == {0: (0, 0)})


def test_a_topic_made_anew_has_no_offsets_of_the_one_before(broker: Broker, topic: str) -> None:
    admin, group = broker.admin, f"{topic}-group"
    admin.commit_group(group, topic, {0: 3})
    admin.delete_topic(topic)
    broker.await_that(lambda: admin.describe(topic) is None)
    admin.ensure_topic(topic, 2)
    broker.await_that(lambda: admin.committed(group, topic) == {})


def test_a_topic_that_grows_keeps_its_id_and_its_records(broker: Broker, topic: str) -> None:
    admin = broker.admin
    before = admin.describe(topic)
    write(broker, topic, b"a")
    broker.settle(topic)
    broker.add_partition(topic)
    broker.await_that(lambda: len(admin.bounds(topic)) == 3)
    after = admin.describe(topic)
    assert before is not None
    assert after is not None
    assert (after.topic_id, after.partitions) == (before.topic_id, 3)
    assert admin.bounds(topic) == {0: (0, 2), 1: (0, 0), 2: (0, 0)}


def test_the_first_offset_at_a_time_is_that_of_a_record_so_new(broker: Broker, topic: str) -> None:
    producer = broker.producer(topic)
    producer.begin()
    producer.send(topic, 0, [b"a", b"b", b"c"], [b"1", b"2", b"3"], [1_000, 3_000, 2_000])
    producer.commit()
    broker.settle(topic)
    assert [broker.admin.first_at(topic, at) for at in (1, 1_000, 1_001, 3_000)] == [
        {0: 0}, {0: 0}, {0: 1}, {0: 1},
    ]  # fmt: skip


def test_a_topic_of_log_append_time_has_times_of_its_own(
    broker: Broker, kafka_topic_name: Callable[[str], str]
) -> None:
    config = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}
    topic = broker.admin.ensure_topic(kafka_topic_name("log"), 1, -1, config).name
    assert config.items() <= broker.admin.config(topic).items()
    producer = broker.producer(topic)
    producer.begin()
    producer.send(topic, 0, [b"a"], [b"1"], 7)
    producer.commit()
    assert read(broker, topic).timestamps[0] > 1_000_000


def test_a_group_s_offsets_are_what_was_said_last(broker: Broker, topic: str) -> None:
    admin, group = broker.admin, f"{topic}-group"
    assert admin.committed(group, topic) == {}
    admin.commit_group(group, topic, {0: 3})
    admin.commit_group(group, topic, {0: 5, 1: 1})
    assert admin.committed(group, topic) == {0: 5, 1: 1}


def test_compaction_keeps_the_last_of_each_key_and_every_offset(
    broker: Broker, kafka_topic_name: Callable[[str], str]
) -> None:
    config = {
        "cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.01",
        "min.compaction.lag.ms": "0",
    }  # fmt: skip
    topic = broker.admin.ensure_topic(kafka_topic_name("log"), 1, -1, config).name
    for n in range(3):
        write(broker, topic, b"a", b"b", b"c%d" % n)

    def cleaned() -> bool:
        write(broker, topic, b"rolls the segment")
        if isinstance(broker, FakeBroker):
            broker.kafka.compact(topic)
        return read(broker, topic).keys.count(b"a") == 1

    broker.await_that(cleaned)
    chunk = read(broker, topic)
    assert chunk.keys.count(b"b") == 1
    at = dict(zip(chunk.keys, chunk.offsets, strict=True))
    assert [at[k] for k in (b"a", b"b", b"c0", b"c1", b"c2")] == [8, 9, 2, 6, 10]
    (start, end) = broker.admin.bounds(topic)[0]
    assert start == 0
    assert chunk.position == end
