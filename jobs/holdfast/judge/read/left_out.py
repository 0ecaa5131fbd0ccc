"""The records in no result, according to a job's own commit markers."""

from __future__ import annotations

import json
from collections.abc import Mapping

from holdfast.judge.read.last_markers import SOURCE_MARKER, progress_records, state_markers
from holdfast.judge.read.observe import Observer
from holdfast.types.ids import progress_topic
from holdfast.types.left_out import LeftOut
from holdfast.types.statements.topology import Query

__all__ = ["dead_letters", "left_out"]

_DEAD_LETTER = b"\x00holdfast.dead-letter."


def left_out(observer: Observer, application_id: str, query: Query) -> LeftOut:
    """A query's input since its first batch, and the part of it that is in no result.

    Raises:
        ValueError: a commit marker that is not JSON.
    """
    progress = progress_records(observer, application_id, query)
    dead = _sum(progress, _DEAD_LETTER)
    if not query.stateful:
        return LeftOut(_sum(progress, SOURCE_MARKER), dead_letters=dead)
    markers = list(state_markers(observer, observer.marker_topic(query)))
    return LeftOut(
        records=sum(int(m.get("records", 0)) for m in markers) + dead,
        late=sum(int(m.get("dropped_late", 0)) for m in markers),
        null_key=sum(int(m.get("dropped_null_key", 0)) for m in markers),
        dead_letters=dead,
    )


def dead_letters(observer: Observer, application_id: str, query: Query) -> int | None:
    """Records that a query reports as dead letters; None where it writes none."""
    if not observer.exists(progress_topic(application_id, query.id)):
        return None
    return _sum(progress_records(observer, application_id, query), _DEAD_LETTER)


def _sum(markers: Mapping[bytes, bytes], prefix: bytes) -> int:
    found = (json.loads(value) for key, value in markers.items() if key.startswith(prefix))
    return sum(int(marker.get("records", 0)) for marker in found)
