"""A value that is another one each time it is evaluated is safe where it is written down first.

GROUP BY UUID() over a table: a row's group is kept with it, so what is taken back is what was
added, also when a killed batch is evaluated again.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from holdfast.sql.plan.topology import compile_text
from holdfast.tasks.steps import AnyStep, Observer, Step, observe
from tests.simulation.fakes.spark import Crash
from tests.simulation.jobs.kinds import Sent
from tests.simulation.test_kinds import Run

_TABLE = """
CREATE TABLE t (k VARCHAR PRIMARY KEY, x BIGINT)
  WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE s AS SELECT UUID() AS g, COUNT(*) AS n FROM t GROUP BY UUID();
"""
BATCHES = [
    [Sent(b"a", b'{"x": 1}', 1), Sent(b"b", b'{"x": 1}', 2), Sent(b"c", b'{"x": 1}', 3)],
    [Sent(b"a", b'{"x": 2}', 4), Sent(b"b", None, 5), Sent(b"d", b'{"x": 1}', 6)],
    [Sent(b"a", b'{"x": 3}', 7), Sent(b"c", None, 8)],
]


def _die_after(run: Run, step: Step) -> Observer:
    def die(reached: AnyStep, _query: str, _partition: int) -> None:
        if reached is step:
            observe(None)
            run.bench.kill()
            raise Crash

    return die


@pytest.mark.parametrize("step", [Step.BEGUN, Step.PRODUCED, Step.MARKED, Step.COMMITTED])
def test_a_tables_row_leaves_the_group_it_was_in(
    monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    changes = compile_text(_TABLE).queries[0]
    run = Run(monkeypatch, changes, {"t": BATCHES})
    seen = set()
    for number in range(len(BATCHES)):
        seen |= {tuple(map(bytes, run.payload(number))) for _ in range(2)}
        if number:
            run.bench.renew()
            observe(_die_after(run, step))
            with pytest.raises(Crash):
                run.apply(number)
            run.bench.on(0)
        run.apply(number)
    assert len(seen) == 2 * len(BATCHES), "evaluated again it is the same: the test is void"
    groups: Counter[str] = Counter()
    for record in run.results():
        told = json.loads(record.value or b"{}")
        if told["HAS_OLD"]:
            groups[told["OLD_G0"]] -= 1
        if told["HAS_NEW"]:
            groups[told["NEW_G0"]] += 1
    assert sorted(groups.values()) == [0] * (len(groups) - 2) + [1, 1]  # of a and d
