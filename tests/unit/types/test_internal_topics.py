"""Topics between the steps of a statement are named after their job."""

from __future__ import annotations

from dataclasses import replace

from holdfast.types.columns.schema import BIGINT, STRING, Column
from holdfast.types.statements.internal_topics import for_application
from holdfast.types.statements.topology import (
    ChangesStep,
    Input,
    ProjectStep,
    Query,
    Sink,
    Source,
    Topology,
)
from tests.support.values.expressions import source_column

KEY = Column("K", STRING)
KEYS = (source_column(KEY),)
USERS = Source("USERS", "TABLE", "users", (KEY,), (Column("V", BIGINT),))
BETWEEN = replace(USERS, name="BETWEEN", topic="ctas_t_1")
FIRST = Query(
    "ctas_t_1", "", USERS, None, ChangesStep(Input(USERS, KEYS, KEYS), 1),
    Sink("BETWEEN", "STREAM", "ctas_t_1", (KEY,), (), internal=True),
)  # fmt: skip
LAST = Query(
    "ctas_t", "", BETWEEN, None, ChangesStep(Input(BETWEEN, KEYS, KEYS), 1),
    Sink("T", "TABLE", "t", (KEY,), ()),
)  # fmt: skip


def test_writer_and_reader_of_an_internal_topic_are_told_its_name() -> None:
    found = for_application(Topology((FIRST, LAST)), "app")
    first, last = found.queries
    assert first.sink.topic == "app-ctas_t_1"
    assert (last.source.topic, last.sources[0].topic) == ("app-ctas_t_1", "app-ctas_t_1")
    assert (first.sources[0].topic, last.sink.topic) == ("users", "t")


def test_a_topology_without_internal_topics_is_left_alone() -> None:
    topology = Topology((replace(LAST, step=ProjectStep(KEYS, ())),))
    assert for_application(topology, "app") is topology
