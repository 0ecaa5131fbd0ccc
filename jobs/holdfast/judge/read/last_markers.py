"""The last commit markers of a query, read from the ends of its topics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from holdfast.judge.read.observe import Observer
from holdfast.types.ids import progress_topic
from holdfast.types.statements.topology import Query

__all__ = ["SOURCE_MARKER", "last_markers", "progress_records", "state_markers"]

SOURCE_MARKER = b"\x00holdfast.commit."
"""Begins the keys of a query without state; its source partition follows."""
_STATE_MARKER = b"\x00holdfast.commit"
_FIRST_LOOK = 256  # offsets; a marker is the last record of its transaction


def last_markers(observer: Observer, application_id: str, query: Query) -> list[dict[str, Any]]:
    """By state partition; for a query without state, by source partition.

    Raises:
        ValueError: a commit marker that is not JSON.
    """
    if query.stateful:
        return list(state_markers(observer, observer.marker_topic(query)))
    found = progress_records(observer, application_id, query)
    return [json.loads(value) for key, value in found.items() if key.startswith(SOURCE_MARKER)]


def progress_records(observer: Observer, application_id: str, query: Query) -> dict[bytes, bytes]:
    """The last record of each key of the query's progress topic."""
    topic = progress_topic(application_id, query.id)
    if not observer.exists(topic):
        return {}
    records = observer.records(topic, observer.bounds(topic))
    return {r.key: r.value for r in records if r.key is not None and r.value is not None}


def state_markers(observer: Observer, topic: str) -> Iterator[dict[str, Any]]:
    """The last marker of each state partition that has one."""
    if not observer.exists(topic):
        return
    for partition, (start, end) in observer.bounds(topic).items():
        back = _FIRST_LOOK
        while start < end:
            near = {partition: (max(start, end - back), end)}
            values = [
                r.value for r in observer.records(topic, near)
                if r.key == _STATE_MARKER and r.value is not None
            ]  # fmt: skip
            if values:
                yield json.loads(values[-1])
            if values or end - back <= start:
                break
            back *= 16
