from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from tests.bench.__main__ import FULL
from tests.bench.input import SEED, made, records
from tests.bench.orders import Orders
from tests.bench.session import Step, steps
from tests.bench.systems.holdfast import Holdfast, statements
from tests.bench.systems.kafka_streams import KafkaStreams
from tests.bench.systems.peers import Case, Peer
from tests.bench.systems.quix import Quix
from tests.bench.systems.spark import Spark
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


def test_a_workload_is_run_by_those_that_it_is_written_for() -> None:
    found = steps(replace(FULL, workloads=("h", "i", "j", "k"), rounds=1), _peers())
    assert {step.peer.name for step in found} == {"holdfast", "kafka-streams"}
    assert len(found) == 8


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


def test_nine_records_in_ten_are_of_the_hot_title() -> None:
    made = [r for chunk in records(INPUTS["hot"], 20_000, 0) for r in chunk]
    hot = [b'"Movie 00000"' in value for _, value, _ in made]
    assert np.mean(hot) == pytest.approx(0.9, abs=0.01)
    assert len({key for key, _, _ in made}) > 19_000


@pytest.mark.parametrize("query", list(Query))
def test_our_statements_are_understood(query: Query) -> None:
    case = Case("h:1", "app", ("in", "too"), query, Path("folder"), 100)
    joined = query is Query.JOIN
    assert Holdfast().group(case) == ("app-csas_settled" if joined else "app-ctas_totals")
    wanted = {
        Query.WINDOW: "WINDOW TUMBLING",
        Query.SESSION: "WINDOW SESSION",
        Query.JOIN: "WITHIN",
        Query.COMPUTED: "AS letters FROM sales WHERE ",
        Query.DISTINCT: "COUNT_DISTINCT(customer) AS total FROM sales GROUP BY title ",
        Query.EXPRESSION: "GROUP BY UCASE(SUBSTRING(title, 1, 10)) ",
    }
    assert wanted.get(query, "") in statements(case)


def test_orders_and_payments_run_forward_and_most_pay_what_was_ordered() -> None:
    spec, count = INPUTS["orders"], 10_000
    last_ms = 10_000_000_000
    by_topic = dict(made(spec, 2 * count, last_ms))
    orders = [r for chunk in by_topic["orders"] for r in chunk]
    payments = [r for chunk in by_topic["payments"] for r in chunk]
    assert len(orders) == len(payments) == count
    for rows in (orders, payments):
        times = [time for _, _, time in rows]
        assert times == sorted(times)
        assert times[-1] < last_ms
    paid = {key: (orjson.loads(value)["paid"], time) for key, value, time in payments}
    ordered = {key: (orjson.loads(value)["amount"], time) for key, value, time in orders}
    both = paid.keys() & ordered.keys()
    assert all(paid[key][0] == ordered[key][0] for key in both)
    near = sum(abs(paid[key][1] - ordered[key][1]) <= 600_000 for key in both)
    assert near == np.count_nonzero(Orders.made(spec, count, SEED).paid_in_time)
    assert 0.88 < near / count < 0.92


def test_an_input_of_one_topic_is_spaced_and_ends_by_now() -> None:
    ((topic, chunks),) = made(INPUTS["visits"], 1_000, 5_000)
    times = [time for chunk in chunks for _, _, time in chunk]
    assert topic == "sales"
    assert times == list(range(3_000, 5_000, 2))


def test_every_workload_has_an_input() -> None:
    assert {w.input for w in WORKLOADS.values()} <= INPUTS.keys()


def test_only_a_peer_that_can_rescale_while_it_runs_is_rescaled() -> None:
    found = steps(replace(FULL, workloads=("r1", "r10"), rounds=2), _peers())
    assert _names(found) == [("r1", "holdfast"), ("r10", "holdfast")]
