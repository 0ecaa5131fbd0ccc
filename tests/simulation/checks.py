"""Judges a history from outside: read committed, fold, compare with a plain count."""

from __future__ import annotations

from collections import Counter

import orjson

from holdfast.state.changelog import DATA_PREFIX
from holdfast.tasks.plan import QueryPlan
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.reader import PartitionReader
from tests.integration.transport.settling import await_settled
from tests.simulation import history

__all__ = ["check_exact"]


def _read(plan: QueryPlan, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    start, end = await_settled(Admin(plan.settings.client()), topic)[0]
    reader = PartitionReader(plan.settings.client(), topic, 0)
    try:
        chunks = list(reader.read(start, end))
    finally:
        reader.close()
    return [pair for c in chunks for pair in zip(c.keys, c.values, strict=True)]


def check_exact(plan: QueryPlan, seed: int) -> None:
    want = history.expected(seed)
    sink = _read(plan, plan.query.sink.topic)
    folded = {k: orjson.loads(v)["N"] for k, v in sink if k is not None and v is not None}
    assert folded == {k.encode(): n for k, n in want.items()}
    updates = Counter(k for k, _ in sink)
    batches = [history.batch_counts(seed, b) for b in range(history.BATCHES)]
    assert updates == Counter(k.encode() for b in batches for k in b), "an update came twice"
    rows = [k for k, _ in _read(plan, plan.changelog) if k is not None and k[:1] == DATA_PREFIX]
    assert Counter(rows) == Counter(DATA_PREFIX + k for k in updates.elements() if k is not None)
