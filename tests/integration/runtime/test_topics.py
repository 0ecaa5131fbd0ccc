"""The topics of a query: created ones accept records as large as its sources'."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.local.broker import BrokerStatus
from holdfast.runtime.topics import dead_letters, ensure_topics
from holdfast.sql import compile_text
from holdfast.transport.admin import Admin
from holdfast.types.ids import changelog_topic, progress_topic
from tests.table_job import settings_of

SQL = """
CREATE STREAM a (id STRING KEY, v STRING) WITH (KAFKA_TOPIC='{topic}-a', VALUE_FORMAT='JSON');
CREATE STREAM b (id STRING KEY, v STRING) WITH (KAFKA_TOPIC='{topic}-b', VALUE_FORMAT='JSON');
CREATE STREAM ab WITH (KAFKA_TOPIC='{topic}-ab') AS
  SELECT a.id AS id, a.v AS av, b.v AS bv FROM a JOIN b WITHIN 1 HOUR ON a.id = b.id;
"""
DEFAULT = "1048588"


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
