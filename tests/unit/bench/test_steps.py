from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from tests.bench.__main__ import FULL
from tests.bench.holdfast import Holdfast, statements
from tests.bench.input import records
from tests.bench.kafka_streams import KafkaStreams
from tests.bench.peers import Case, Peer
from tests.bench.quix import Quix
from tests.bench.session import Step, steps
from tests.bench.spark import Spark
from tests.bench.workloads import INPUTS, WORKLOADS, Query

_TOOLS = Path("tools")


def _peers() -> list[Peer]:
    return [Holdfast(), KafkaStreams(_TOOLS), Quix(_TOOLS), Spark()]


def _names(found: Sequence[Step]) -> list[tuple[str, str]]:
    return [(step.workload.name, step.peer.name) for step in found]


def test_peers_take_turns_and_change_their_order_from_round_to_round() -> None:
    size = replace(FULL, workloads=("a", "b"), rounds=2, once=())
    found = _names(steps(size, _peers()[:2]))
    ours, theirs = "holdfast", "kafka-streams"
    assert found == [
        ("a", ours), ("a", theirs), ("b", ours), ("b", theirs),
        ("a", theirs), ("a", ours), ("b", theirs), ("b", ours),
    ]  # fmt: skip


def test_slow_peers_and_what_is_no_throughput_are_measured_once() -> None:
    found = _names(steps(FULL, _peers()))
    assert found.count(("a", "holdfast")) == FULL.rounds
    assert found.count(("a", "quix")) == 1
    assert found.count(("e", "holdfast")) == 1
    assert ("g", "quix") not in found


def test_a_restore_follows_the_run_whose_table_it_restores() -> None:
    found = steps(replace(FULL, workloads=("f",), rounds=2), _peers())
    restored = [step.peer.name for step in found if step.then_restore]
    assert restored == ["holdfast", "kafka-streams"]
    assert {step.workload.name for step in found} == {"a"}


def test_joins_and_sessions_are_run_by_those_that_have_them() -> None:
    found = steps(replace(FULL, workloads=("h", "i"), rounds=1), _peers())
    assert {step.peer.name for step in found} == {"holdfast", "kafka-streams"}
    assert len(found) == 4


def test_the_same_seed_makes_the_same_records() -> None:
    first = [r for chunk in records(INPUTS["uniform"], 1_000, 5) for r in chunk]
    again = [r for chunk in records(INPUTS["uniform"], 1_000, 5) for r in chunk]
    assert first == again
    key, value, ts = first[10]
    assert ts == 15
    assert orjson.loads(value)["customer"].encode() == key
    assert orjson.loads(value)["ts"] == 15


def test_zipf_prefers_few_customers_and_uniform_does_not() -> None:
    def share_of_the_first(name: str) -> float:
        keys = [r[0] for chunk in records(INPUTS[name], 20_000, 0) for r in chunk]
        return float(np.mean([key == b"c00000000" for key in keys]))

    assert share_of_the_first("uniform") < 0.001
    assert share_of_the_first("zipf") == pytest.approx(0.21, abs=0.05)


@pytest.mark.parametrize("query", list(Query))
def test_our_statements_are_understood(query: Query) -> None:
    case = Case("h:1", "app", "in", query, Path("folder"), 100)
    joined = query is Query.JOIN
    assert Holdfast().group(case) == ("app-csas_pairs" if joined else "app-ctas_totals")
    wanted = {
        Query.WINDOW: "WINDOW TUMBLING",
        Query.SESSION: "WINDOW SESSION",
        Query.JOIN: "WITHIN",
    }
    assert wanted.get(query, "") in statements(case)


def test_every_workload_has_an_input() -> None:
    assert {w.input for w in WORKLOADS.values()} <= INPUTS.keys()
