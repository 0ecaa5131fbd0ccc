"""What a job's own commit markers say of records that are in no result."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.chaos.observe import Observer
from holdfast.types.ids import changelog_topic, progress_topic
from holdfast.types.left_out import LeftOut
from holdfast.types.topology import Query

__all__ = ["dead_letters", "left_out"]

_FIRST_LOOK = 256  # offsets; a marker is the last record of its transaction
_STATE_MARKER = b"\x00holdfast.commit"
_SOURCE_MARKER = b"\x00holdfast.commit."
_DEAD_LETTER = b"\x00holdfast.dead-letter."


def left_out(observer: Observer, application_id: str, query: Query) -> LeftOut:
    """A query's input since its first batch, and what of it is in no result.

    Raises:
        ValueError: a commit marker that is not JSON.
    """
    progress = _progress(observer, application_id, query)
    dead = _sum(progress, _DEAD_LETTER)
    if not query.stateful:
        return LeftOut(_sum(progress, _SOURCE_MARKER), dead_letters=dead)
    topic = changelog_topic(application_id, query.id)
    markers = list(_state_markers(observer, topic))
    return LeftOut(
        records=sum(int(m.get("records", 0)) for m in markers) + dead,
        late=sum(int(m.get("dropped_late", 0)) for m in markers),
        null_key=sum(int(m.get("dropped_null_key", 0)) for m in markers),
        dead_letters=dead,
    )


def dead_letters(observer: Observer, application_id: str, query: Query) -> int | None:
    """Records that a query says it has set aside; None where it sets none aside."""
    if not observer.exists(progress_topic(application_id, query.id)):
        return None
    return _sum(_progress(observer, application_id, query), _DEAD_LETTER)


def _progress(observer: Observer, application_id: str, query: Query) -> dict[bytes, bytes]:
    """The last record of each key of the query's progress topic."""
    topic = progress_topic(application_id, query.id)
    if not observer.exists(topic):
        return {}
    records = observer.records(topic, observer.bounds(topic))
    return {r.key: r.value for r in records if r.key is not None and r.value is not None}


def _sum(markers: Mapping[bytes, bytes], prefix: bytes) -> int:
    found = (json.loads(value) for key, value in markers.items() if key.startswith(prefix))
    return sum(int(marker.get("records", 0)) for marker in found)


def _state_markers(observer: Observer, topic: str) -> Iterator[dict[str, Any]]:
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
