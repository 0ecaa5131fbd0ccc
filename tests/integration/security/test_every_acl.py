"""Every line of the list of ACLs is needed, and told by name when it is missing.

Each part of Holdfast has the ACLs of `holdfast.types.acls` but one: what it does with that one then
fails and names it.  With all of them the same goes well.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from holdfast.cli.chaos.rescales import ControlTopic
from holdfast.compaction.apply.roll import roll
from holdfast.compaction.survey.survey import SurveyOptions, take_survey
from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError
from holdfast.ingest.letters import Letters
from holdfast.judge.read.observe import Observer
from holdfast.sql import compile_text
from holdfast.state.topics.orders import Order, OrderBook
from holdfast.state.topics.sink_owners import SinkOwners
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.topic_settings import TopicSettings
from holdfast.transport.idempotent_producer import Producer
from holdfast.transport.producer import TransactionalProducer
from holdfast.transport.reader import PartitionReader
from holdfast.transport.tail import TailReader
from holdfast.types.acls import (
    NEEDS,
    Binding,
    Names,
    Need,
    Of,
    Operation,
    Part,
    Resource,
    bindings,
    needs_of,
)
from holdfast.types.ids import (
    SINK_OWNERS_TOPIC,
    changelog_topic,
    compaction_topic,
    consumer_group,
    insertions_transactional_id,
)
from holdfast.types.statements.topology import Query
from holdfast.types.status import QueryState
from tests.support.jobs.table_job import STATEMENTS, TableJob, settings_of
from tests.support.servers.secured_kafka import SecuredKafka, Way

_APP, _TOPIC, _SINK, _DEAD = "shop", "orders", "orders-counts", "spoiled"
_QUERY = "ctas_counts"
_CHANGELOG = changelog_topic(_APP, _QUERY)
_NAMES = Names(
    _APP,
    sources=frozenset({_TOPIC}),
    inputs=frozenset({_TOPIC}),
    input_streams=frozenset({_TOPIC}),
    input_tables=frozenset({_TOPIC}),
    new_sources=frozenset({_TOPIC}),
    inserted=frozenset({_TOPIC}),
    sinks=frozenset({_SINK}),
    dead_letters=frozenset({_DEAD}),
)
_Client = dict[str, str]
_O = Operation
# What is allowed along with DESCRIBE: who lacks it may lack DESCRIBE, too.
_WITH_DESCRIBE = {_O.READ, _O.WRITE, _O.DELETE, _O.ALTER}


class _World:
    """One job, and what each part of Holdfast does to Kafka for it."""

    def __init__(self, kafka: SecuredKafka, folder: Path) -> None:
        self.kafka, self._folder = kafka, folder
        self._commits = 0

    def settings(self, client: _Client) -> Settings:
        home = self._folder / uuid.uuid4().hex
        settings = settings_of(client["bootstrap.servers"], _APP, home, partitions=1)
        more = {k: v for k, v in client.items() if k != "bootstrap.servers"}
        ingest = replace(settings.ingest, dead_letter_topic=_DEAD)
        return replace(settings, kafka=more, ingest=ingest)

    def commit(self, client: _Client) -> None:
        """Makes the topics, opens the state, and commits a batch."""
        job = TableJob(self.settings(client), _TOPIC)
        job._batch = self._commits  # the one after the last that was committed
        try:
            job.commit({"a": 1})
            self._commits += 1
        finally:
            job.close()

    def reopen(self, client: _Client) -> None:
        """The state of a job that has committed before."""
        self.commit(self.kafka.master)
        self.commit(client)

    def read(self, client: _Client) -> None:
        """A record of the input, as a task does it."""
        _send(_TOPIC, self.kafka.master)
        reader = PartitionReader(client, _TOPIC, 0)
        try:
            start, end = reader.bounds()
            assert list(reader.read(start, end))
        finally:
            reader.close()

    def claim(self, client: _Client) -> None:
        admin = Admin(client)
        query = _query()
        info = admin.describe(query.sink.topic)
        assert info is not None
        SinkOwners(admin, client).claim(query, info.topic_id, _APP)

    def release(self, client: _Client) -> None:
        SinkOwners(Admin(client), client).release([_SINK])

    def replay(self, client: _Client) -> None:
        """A record that is set aside, and written again."""
        with TransactionalProducer(self.kafka.master, "letters", 10_000) as producer:
            producer.init()
            producer.begin()
            place = {"topic": _TOPIC, "partition": "0", "offset": "0", "timestamp": "7"}
            told = {**place, "query": f"{_APP}-{_QUERY}", "reason": "no JSON"}
            headers = [(f"holdfast.{name}", text) for name, text in told.items()]
            producer.send_one(_DEAD, 0, b"key", uuid.uuid4().bytes, headers)
            producer.commit()
        assert Letters(client, _DEAD, _APP).replay().written > 0

    def replay_again(self, client: _Client) -> None:
        """The same where a replay was before, which has to be read."""
        self.replay(self.kafka.master)
        self.replay(client)

    def order(self, client: _Client) -> None:
        book = OrderBook(Admin(client), client, _APP)
        book.refresh()
        book.write_orders({_QUERY: Order(QueryState.RUNNING, "")})

    def survey(self, client: _Client) -> str:
        return " ".join(take_survey(client, lambda _: [], SurveyOptions("r", [_APP])).notes)


def _rescale(client: _Client) -> None:
    ControlTopic(OrderBook(Admin(client), client, _APP)).order(_QUERY, 2)


def _query() -> Query:
    sql = STATEMENTS.format(topic=_TOPIC, window="")
    return compile_text(sql).queries[0]


def _follow(topic: str, client: _Client) -> None:
    """As a query server does, until the topic's end."""
    Admin(client).bounds(topic)
    reader = TailReader(client)
    try:
        reader.follow(topic, 0, 0)
        for _ in range(600):
            found = reader.poll(100, 0.1)
            for error in found.failed.values():
                raise error
            if found.ends:
                return
        raise AssertionError(f"{topic} has no end")
    finally:
        reader.close()


def _send(topic: str, client: _Client) -> None:
    producer = Producer(client, 10_000)
    try:
        producer.send(topic, b"key", b"{}")
        producer.flush()
    finally:
        producer.close()


def _transact(topic: str, client: _Client) -> None:
    name = insertions_transactional_id(_APP)
    with TransactionalProducer(client, name, 10_000) as producer:
        producer.init()
        producer.begin()
        producer.send(topic, 0, [b"key"], [b"{}"])
        producer.commit()


def _configs(topic: str, client: _Client) -> None:
    Admin(client).config(topic)


def _verify(topic: str, client: _Client) -> None:
    observer = Observer(client, _APP)
    list(observer.records(topic, observer.bounds(topic)))


def _steps(world: _World) -> dict[tuple[Part, Of, Operation], Callable[[_Client], object]]:
    """An action that needs the right, for every right; those that make topics come first."""
    job = {(Part.JOB, *key): step for key, step in _steps_of_a_job(world).items()}
    return job | _steps_beside_a_job(world) | _judging()


def _steps_of_a_job(world: _World) -> dict[tuple[Of, Operation], Callable[[_Client], object]]:
    commit = world.commit
    return {
        (Of.NEW_SOURCES, _O.CREATE): commit,
        (Of.SINKS, _O.CREATE): commit,
        (Of.DEAD_LETTERS, _O.CREATE): commit,
        (Of.OWN, _O.CREATE): commit,
        (Of.INSERTED, _O.WRITE): partial(_transact, _TOPIC),
        (Of.SOURCES, _O.READ): world.read,
        (Of.SINKS, _O.WRITE): commit,
        (Of.DEAD_LETTERS, _O.WRITE): partial(_transact, _DEAD),
        (Of.OWN, _O.READ): world.reopen,
        (Of.OWN, _O.WRITE): commit,
        (Of.OWN, _O.DESCRIBE_CONFIGS): commit,
        (Of.OWN, _O.DELETE): lambda c: Admin(c).delete_records({(_CHANGELOG, 0): 0}),
        (Of.SINK_OWNERS, _O.CREATE): world.claim,
        (Of.SINK_OWNERS, _O.WRITE): world.claim,
        (Of.SINK_OWNERS, _O.READ): world.claim,
        (Of.GROUPS, _O.READ): lambda c: Admin(c).commit_group(
            consumer_group(_APP, _QUERY), _TOPIC, {0: 0}
        ),
        (Of.TRANSACTIONS, _O.WRITE): commit,
    }


def _steps_beside_a_job(
    world: _World,
) -> dict[tuple[Part, Of, Operation], Callable[[_Client], object]]:
    order, survey = world.order, world.survey
    return {
        (Part.SERVE, Of.SOURCES, _O.READ): partial(_follow, _TOPIC),
        (Part.SERVE, Of.SOURCES, _O.DESCRIBE_CONFIGS): partial(_configs, _TOPIC),
        (Part.SERVE, Of.SINKS, _O.READ): partial(_follow, _SINK),
        (Part.SERVE, Of.SINKS, _O.DESCRIBE_CONFIGS): partial(_configs, _SINK),
        (Part.SERVE, Of.OWN, _O.READ): partial(_follow, _CHANGELOG),
        (Part.SERVE, Of.OWN, _O.DESCRIBE_CONFIGS): partial(_configs, _CHANGELOG),
        (Part.ORDERS, Of.CONTROL, _O.READ): order,
        (Part.ORDERS, Of.CONTROL, _O.WRITE): order,
        (Part.ORDERS, Of.SINK_OWNERS, _O.READ): world.release,
        (Part.ORDERS, Of.SINK_OWNERS, _O.WRITE): world.release,
        (Part.LETTERS, Of.OWN, _O.CREATE): world.replay,
        (Part.LETTERS, Of.OWN, _O.READ): world.replay_again,
        (Part.LETTERS, Of.OWN, _O.WRITE): world.replay,
        (Part.LETTERS, Of.DEAD_LETTERS, _O.READ): world.replay,
        (Part.LETTERS, Of.SOURCES, _O.WRITE): world.replay,
        (Part.LETTERS, Of.TRANSACTIONS, _O.WRITE): world.replay,
        (Part.SURVEY, Of.OWN, _O.READ): survey,
        (Part.SURVEY, Of.OWN, _O.DESCRIBE_CONFIGS): survey,
        (Part.SURVEY, Of.SOURCES, _O.DESCRIBE): survey,
        (Part.SURVEY, Of.CLUSTER, _O.DESCRIBE): survey,
        (Part.SURVEY, Of.CLUSTER, _O.DESCRIBE_CONFIGS): survey,
        (Part.SURVEY, Of.ALL_GROUPS, _O.DESCRIBE): survey,
        (Part.APPLY, Of.OWN, _O.ALTER_CONFIGS): lambda c: TopicSettings(c).alter(
            _CHANGELOG, {"segment.ms": "600000"}
        ),
        (Part.APPLY, Of.OWN, _O.CREATE): lambda c: Admin(c).ensure_topic(compaction_topic(_APP), 1),
        (Part.APPLY, Of.OWN, _O.WRITE): partial(_send, compaction_topic(_APP)),
        (Part.APPLY, Of.COMPACTION, _O.WRITE): lambda c: roll(c, _APP, _CHANGELOG, [0]),
    }


def _judging() -> dict[tuple[Part, Of, Operation], Callable[[_Client], object]]:
    """The same of the judge and of chaos."""

    def compacted(topic: str) -> Callable[[_Client], object]:
        return lambda client: Observer(client, _APP).compacted(topic)

    return {
        (Part.VERIFY, Of.SOURCES, _O.READ): partial(_verify, _TOPIC),
        (Part.VERIFY, Of.INPUT_TABLES, _O.DESCRIBE_CONFIGS): compacted(_TOPIC),
        (Part.VERIFY, Of.SINKS, _O.READ): partial(_verify, _SINK),
        (Part.VERIFY, Of.SINKS, _O.DESCRIBE_CONFIGS): compacted(_SINK),
        (Part.VERIFY, Of.OWN, _O.READ): partial(_verify, _CHANGELOG),
        (Part.VERIFY, Of.GROUPS, _O.DESCRIBE): lambda c: Observer(c, _APP).lag(_query()),
        (Part.CHAOS, Of.OWN, _O.DESCRIBE_CONFIGS): compacted(_CHANGELOG),
        (Part.CHAOS, Of.INPUTS, _O.WRITE): partial(_send, _TOPIC),
        (Part.CHAOS, Of.INPUT_STREAMS, _O.ALTER): lambda c: Admin(c).add_partitions(_TOPIC, 2),
        (Part.CHAOS, Of.CONTROL, _O.WRITE): _rescale,
    }


@pytest.fixture(scope="module")
def world(secured: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_World]:
    secured.revoke_all("clerk")
    yield _World(secured, tmp_path_factory.mktemp("job"))
    secured.revoke_all("clerk")


def test_every_need_is_tried() -> None:
    wanted = {(need.parts[0], need.of, o) for need in NEEDS for o in need.operations}
    assert set(_steps(_World.__new__(_World))) == wanted


@pytest.mark.parametrize("part", [part for part in Part if part is not Part.SELFTEST])
def test_what_is_left_out_is_told_by_name(world: _World, part: Part) -> None:
    client = world.kafka.client("clerk", Way.PLAIN)
    world.kafka.grant("clerk", bindings(needs_of(part), _NAMES))
    steps = {key[1:]: step for key, step in _steps(world).items() if key[0] is part}
    try:
        _prepare(world, part)
        for (of, operation), step in steps.items():
            (left_out,) = bindings([Need((part,), of, (operation,), "")], _NAMES)
            with world.kafka.without("clerk", left_out):
                told = _told(step, client)
            assert re.search(_expected(left_out), told), f"{left_out} is told as {told!r}"
        for (of, operation), step in steps.items():
            told = _told(step, client)
            assert "lacks the ACL" not in told, f"{operation} on {of}: {told}"
    finally:
        world.kafka.revoke_all("clerk")


def _prepare(world: _World, part: Part) -> None:
    """Prepares what other parts have written before; the job creates its own topics."""
    if part is Part.JOB:
        Admin(world.kafka.master).delete_topic(SINK_OWNERS_TOPIC)  # of another test's job
        return
    world.commit(world.kafka.master)
    world.claim(world.kafka.master)
    admin = Admin(world.kafka.master)
    world.order(world.kafka.master)
    admin.commit_group("another", _CHANGELOG, {0: 0})


def _told(step: Callable[[_Client], object], client: _Client) -> str:
    try:
        return str(step(client) or "")
    except HoldfastError as error:
        return f"{error.fact} {error.cause}"


_KINDS = {
    Resource.TOPIC: "topic",
    Resource.GROUP: "group",
    Resource.TRANSACTIONAL_ID: "transactional id",
}


def _expected(binding: Binding) -> str:
    """The ACL named in the error; for a transaction over several topics, all of them."""
    operations = [binding.operation.value]
    if binding.operation in _WITH_DESCRIBE:
        operations.append("DESCRIBE")
    on = "the cluster"
    if binding.resource is not Resource.CLUSTER:
        on = rf"{_KINDS[binding.resource]} ([\w., -]+, )?{re.escape(binding.name.rstrip('*'))}"
    return rf"lacks the ACL [A-Z_ and]*\b({'|'.join(operations)})\b[A-Z_ and]* on {on}"
