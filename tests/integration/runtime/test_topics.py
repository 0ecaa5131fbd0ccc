"""The topics of a query: created ones accept records as large as its sources'."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.config.settings import Settings
from holdfast.deploy.checks.preflight import check
from holdfast.errors import InvalidStatement
from holdfast.local.broker import BrokerStatus
from holdfast.runtime.topics import dead_letters, ensure_topics
from holdfast.sql import compile_text
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.topic_settings import TopicSettings
from holdfast.types.ids import changelog_topic, progress_topic
from tests.support.jobs.table_job import settings_of

SQL = """
CREATE STREAM a (id STRING KEY, v STRING) WITH (KAFKA_TOPIC='{topic}-a', VALUE_FORMAT='JSON');
CREATE STREAM b (id STRING KEY, v STRING) WITH (KAFKA_TOPIC='{topic}-b', VALUE_FORMAT='JSON');
CREATE STREAM ab WITH (KAFKA_TOPIC='{topic}-ab') AS
  SELECT a.id AS id, a.v AS av, b.v AS bv FROM a JOIN b WITHIN 1 HOUR ON a.id = b.id;
"""
DEFAULT = "1048588"
HOUR, DAY, AHEAD = "3600000", "86400000", "message.timestamp.after.max.ms"
ONE_SQL = """
CREATE STREAM a (id STRING KEY, v STRING, ts BIGINT)
  WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON'{more});
CREATE STREAM kept WITH (KAFKA_TOPIC='{topic}-kept') AS SELECT id, v FROM a;
"""
BY_COLUMN, BY_BROKER = ", TIMESTAMP='ts'", {"message.timestamp.type": "LogAppendTime"}
TO_BE_MADE = f"{BY_COLUMN}, PARTITIONS=1"


@pytest.mark.parametrize(
    ("a", "b", "ours"),
    [
        (None, None, None),
        ("2000000", None, 2_000_000),
        ("2000000", "100000000", 100_000_000),
        ("5000", None, None),  # what is kept per key may be larger than one record
    ],
)
def test_topics_that_are_made_take_what_the_sources_take(
    kafka: BrokerStatus,
    kafka_topic_name: Callable[[str], str],
    tmp_path: Path,
    a: str | None,
    b: str | None,
    ours: int | None,
) -> None:
    topic = kafka_topic_name("in")
    settings = settings_of(kafka.bootstrap_servers, f"{topic}-app", tmp_path)
    admin = Admin(settings.client())
    for name, limit in (("a", a), ("b", b)):
        config = {} if limit is None else {"max.message.bytes": limit}
        admin.ensure_topic(f"{topic}-{name}", 1, -1, config)
    (query,) = compile_text(SQL.format(topic=topic)).queries
    ensure_topics(admin, settings, query)

    def limit_of(name: str) -> str:
        return admin.config(name)["max.message.bytes"]

    changelog = changelog_topic(settings.application_id, query.id)
    wanted = DEFAULT if ours is None else str(ours)
    assert limit_of(f"{topic}-ab") == limit_of(changelog) == wanted
    assert int(admin.config(changelog)["segment.bytes"]) >= int(wanted)
    letters = DEFAULT if ours is None else str(ours + 4_096)
    assert limit_of(dead_letters(settings)) == letters
    assert limit_of(progress_topic(settings.application_id, query.id)) == DEFAULT


@pytest.fixture
def place(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> tuple[str, Settings]:
    """A topic that is not there yet, and a job for it."""
    topic = kafka_topic_name("in")
    return topic, settings_of(kafka.bootstrap_servers, f"{topic}-app", tmp_path)


@pytest.mark.parametrize(
    ("source", "more", "sink", "why"),
    [
        ({AHEAD: HOUR}, BY_COLUMN, {AHEAD: HOUR}, "A has its times from a column"),
        ({AHEAD: DAY}, "", {AHEAD: HOUR}, f"takes them up to {DAY} ms"),
        ({AHEAD: HOUR}, "", {AHEAD: HOUR}, None),
        (BY_BROKER, "", {AHEAD: HOUR}, None),
        ({AHEAD: HOUR}, BY_COLUMN, BY_BROKER, None),
        ({AHEAD: HOUR}, BY_COLUMN, None, None),  # it is made
        (None, TO_BE_MADE, None, None),  # as its source is
    ],
)
def test_a_sink_that_may_refuse_a_result_is_told_of_with_the_remedy(
    place: tuple[str, Settings],
    caplog: pytest.LogCaptureFixture,
    source: dict[str, str] | None,
    more: str,
    sink: dict[str, str] | None,
    why: str | None,
) -> None:
    topic, settings = place
    admin = Admin(settings.client())
    if source is not None:
        admin.ensure_topic(topic, 1, -1, source)
    if sink is not None:
        admin.ensure_topic(f"{topic}-kept", 1, -1, sink)
    topology = compile_text(ONE_SQL.format(topic=topic, more=more))

    def told() -> list[str]:
        """By a job's check, then by its start."""
        caplog.clear()
        check(topology, settings)
        ensure_topics(admin, settings, topology.queries[0])
        return [r.getMessage() for r in caplog.records if AHEAD in r.getMessage()]

    warnings = told() if sink is not None else told() + told()
    assert len(warnings) == (0 if why is None else 2)
    if why is not None:
        assert len(set(warnings)) == 1
        assert f"{topic}-kept refuses records dated more than {HOUR} ms" in warnings[0]
        assert why in warnings[0]
        name, _, value = warnings[0].partition("--add-config ")[2].rstrip("`.").partition("=")
        TopicSettings(settings.client()).alter(f"{topic}-kept", {name: value})
        assert told() == []


@pytest.mark.parametrize("differences", ["none", "kept"])
def test_a_join_in_ksqldbs_way_wants_topics_with_as_many_partitions(
    place: tuple[str, Settings], differences: str
) -> None:
    """Also of a topic that the job is yet to make, as another topic has them."""
    topic, settings = place
    admin = Admin(settings.client())
    for name, partitions in (("a", 1), ("b", 2)):
        admin.ensure_topic(f"{topic}-{name}", partitions, -1, {})
    made = SQL.format(topic=topic) + (
        f"CREATE STREAM c WITH (KAFKA_TOPIC='{topic}-c') AS SELECT id, v FROM b;"
        "CREATE STREAM cb AS SELECT b.id AS id, c.v AS cv FROM b JOIN c WITHIN 1 HOUR "
        "ON b.id = c.id;"
        "CREATE STREAM ca AS SELECT a.id AS id, c.v AS cv FROM a JOIN c WITHIN 1 HOUR "
        "ON a.id = c.id;"
    )
    topology = compile_text(f"SET 'ksqldb.differences'='{differences}';{made}")
    ab, _, cb, ca = topology.queries
    if differences == "kept":
        check(topology, settings)
        for query in topology.queries:
            ensure_topics(admin, settings, query)
        return
    words = "Can't join `{}` with `{}` since the number of partitions don't match. "
    with pytest.raises(InvalidStatement) as refused:
        check(topology, settings)
    assert refused.value.fact.startswith(words.format("A", "B"))
    assert f"{topic}-a and {topic}-b" in refused.value.cause
    with pytest.raises(InvalidStatement, match="`A` partitions = 1; `B` partitions = 2"):
        ensure_topics(admin, settings, ab)
    later = replace(topology, queries=topology.queries[1:])
    with pytest.raises(InvalidStatement) as refused:
        check(later, settings)
    assert refused.value.fact.startswith(words.format("A", "C"))
    assert admin.describe(f"{topic}-c") is None
    check(replace(topology, queries=(topology.queries[1], cb)), settings)
    assert ca.step != cb.step
