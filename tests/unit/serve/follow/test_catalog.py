"""Tables come and go with the statements and the topics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from holdfast.config.settings import Settings
from holdfast.errors import InvalidStatement
from holdfast.serve.follow.catalog import Script, ScriptCatalog
from holdfast.serve.follow.generations import Generations
from holdfast.sql import compile_text
from holdfast.transport.cluster.admin import TopicInfo

STREAM = """CREATE STREAM s (id STRING KEY, a BIGINT)
  WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"""
COUNTS = "CREATE TABLE counts AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;"
SUMS = "CREATE TABLE sums AS SELECT id, SUM(a) AS n FROM s GROUP BY id;"


class File:
    """A script that can be edited."""

    def __init__(self, text: str, application_id: str = "app") -> None:
        self.text = text
        self.script = Script(
            f"{application_id}.sql",
            lambda: self.text,
            lambda: (compile_text(self.text), Settings(application_id)),
        )


def describe(name: str) -> TopicInfo | None:
    return TopicInfo(name, f"id-{name}", 3, 1)


def test_a_table_is_served_once_its_topic_is_there() -> None:
    catalog = ScriptCatalog([File(STREAM + COUNTS).script])
    assert catalog.expected() is None
    catalog.refresh(lambda _: None)
    assert catalog.expected() == {}
    assert dict(catalog.tables()) == {}
    assert "does not exist yet" in catalog.unserved()["COUNTS"].reason
    catalog.refresh(describe)
    assert catalog.tables()["COUNTS"].partitions == 3
    assert catalog.unserved().keys() == {"S"}
    assert catalog.topic_id("app-ctas_counts-changelog") == "id-app-ctas_counts-changelog"


def test_a_rescaled_table_is_served_from_its_next_generation_once_that_is_level() -> None:
    catalog = ScriptCatalog([File(STREAM + COUNTS).script])
    catalog.refresh(describe)
    known = {"ctas_counts": Generations(0, coming=2)}
    level = False

    def refresh() -> None:
        catalog.refresh(describe, lambda _: known, lambda _: level)

    def followed() -> list[str]:
        return sorted(table.topic for table in catalog.stored())

    refresh()
    refresh()
    assert followed() == ["app-ctas_counts-changelog", "app-ctas_counts-g2-changelog"]
    assert catalog.tables()["COUNTS"].topic == "app-ctas_counts-changelog"

    known["ctas_counts"] = Generations(2)
    refresh()
    assert catalog.tables()["COUNTS"].topic == "app-ctas_counts-changelog"
    level = True
    refresh()
    refresh()
    assert catalog.tables()["COUNTS"].topic == "app-ctas_counts-g2-changelog"
    assert catalog.tables()["COUNTS"].held_as != "COUNTS", "peers must not mix the two"
    # Another server may still ask for the former one.
    assert followed() == ["app-ctas_counts-changelog", "app-ctas_counts-g2-changelog"]


def test_a_copy_that_was_given_up_is_not_followed_any_more() -> None:
    catalog = ScriptCatalog([File(STREAM + COUNTS).script])
    known = {"ctas_counts": Generations(0, coming=1)}
    for _ in range(2):
        catalog.refresh(describe, lambda _: known)
    assert len(catalog.stored()) == 2
    known["ctas_counts"] = Generations(0)
    catalog.refresh(describe, lambda _: known)
    assert [table.topic for table in catalog.stored()] == ["app-ctas_counts-changelog"]


@dataclass(frozen=True)
class Watched(TopicInfo):
    """Calls somebody who reads while tables are being made of the topics."""

    watcher: Callable[[], None] = lambda: None

    def __getattribute__(self, name: str) -> object:
        if name == "partitions":
            object.__getattribute__(self, "watcher")()
        return object.__getattribute__(self, name)


def test_nobody_sees_topics_without_the_tables_over_them() -> None:
    """A server that expects no table yet, though it has looked, would call itself ready."""
    catalog = ScriptCatalog([File(STREAM + COUNTS + SUMS).script])
    seen: list[object] = []

    def look() -> None:
        expected = catalog.expected()
        seen.append(expected if expected is None else set(expected))

    catalog.refresh(lambda name: Watched(name, f"id-{name}", 3, 1, look))
    catalog.refresh(lambda name: Watched(name, f"id-{name}", 3, 1, look))
    assert seen == [None, None, {"COUNTS", "SUMS"}, {"COUNTS", "SUMS"}]


def test_an_edited_script_is_seen_and_what_stays_is_the_same_table() -> None:
    file = File(STREAM + COUNTS)
    catalog = ScriptCatalog([file.script])
    catalog.refresh(describe)
    before, version = catalog.tables()["COUNTS"], catalog.version
    file.text = STREAM + COUNTS + SUMS
    catalog.refresh(describe)
    assert catalog.tables().keys() == {"COUNTS", "SUMS"}
    assert catalog.tables()["COUNTS"] is before
    assert catalog.version == version + 1
    file.text = STREAM + SUMS
    catalog.refresh(describe)
    assert catalog.tables().keys() == {"SUMS"}
    assert set(catalog.stores()) == {("app", "ctas_sums")}


def test_a_script_that_is_wrong_now_changes_nothing() -> None:
    file = File(STREAM + COUNTS)
    catalog = ScriptCatalog([file.script])
    catalog.refresh(describe)
    file.text = STREAM + "CREATE TABLE"
    catalog.refresh(describe)
    assert catalog.tables().keys() == {"COUNTS"}
    assert catalog.error
    file.text = STREAM + COUNTS
    catalog.refresh(describe)
    assert catalog.error is None


def test_a_script_that_is_wrong_at_first_is_refused() -> None:
    with pytest.raises(InvalidStatement):
        ScriptCatalog([File("CREATE TABLE").script])


def test_two_jobs_are_served_together() -> None:
    catalog = ScriptCatalog([File(STREAM + COUNTS, "a").script, File(STREAM + SUMS, "b").script])
    catalog.refresh(describe)
    topics = {table.name: table.topic for table in catalog.tables().values()}
    assert topics == {"COUNTS": "a-ctas_counts-changelog", "SUMS": "b-ctas_sums-changelog"}
    assert [s.name for s in catalog.topology().sources] == ["S"]


def test_one_name_stands_for_one_table() -> None:
    with pytest.raises(InvalidStatement, match=r"COUNTS of b\.sql is read from b-ctas_counts"):
        ScriptCatalog([File(STREAM + COUNTS, "a").script, File(STREAM + COUNTS, "b").script])
