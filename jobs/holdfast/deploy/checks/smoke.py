"""Checks after a deployment that every query has committed and its results can be read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from holdfast.client import Client
from holdfast.config.settings import Settings
from holdfast.deploy.checks.served import Newest, read_back
from holdfast.errors import HoldfastError, Refused, TopicMissing
from holdfast.ingest.formats.as_json import AsJson
from holdfast.judge.read.decode import SinkDecoder
from holdfast.judge.read.observe import Observer
from holdfast.judge.values import Untranslatable
from holdfast.state.changelog import CommitMarker
from holdfast.state.layout import GENERATION_0
from holdfast.state.markers import last_markers
from holdfast.state.table_store import store_name
from holdfast.state.topics.orders import read_layouts
from holdfast.state.topics.progress_counts import (
    Counted,
    ProgressCounts,
    left_out_with_state,
    left_out_without_state,
)
from holdfast.tasks.compatibility import check_marker
from holdfast.transport.registry import registry_of
from holdfast.types.ids import Place, changelog_topic, progress_topic, state_name
from holdfast.types.left_out import LeftOut
from holdfast.types.statements.topology import Format, Query, Topology, WindowKind

__all__ = ["SmokeFound", "smoke"]

_SAMPLE = 50  # records of each sink topic partition
_POLL_S = 1.0


@dataclass(frozen=True)
class SmokeFound:
    """A query that works.

    Attributes:
        committed: state partitions with a commit marker (without state: topic partitions).
        decoded: number of sink records that were read; `sample` is the last one.
        note: why there is no result, if so.
        served: whether query servers returned the sample by its key; None: they were not asked.
        left_out: its input since its first batch, and the part of it in no result.
        warnings: left-out shares beyond the limits of the settings.
        statement: the query's own statement; `internal`: its sink is a step of another one.
    """

    id: str
    sink: str
    committed: int
    decoded: int
    sample: dict[str, Any] | None
    note: str = ""
    served: bool | None = None
    left_out: LeftOut = field(default_factory=LeftOut)
    warnings: tuple[str, ...] = ()
    statement: str = ""
    internal: bool = False

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def smoke(
    topology: Topology,
    settings: Settings,
    *,
    timeout_s: float,
    tell: Callable[[str], None],
    client: Client | None = None,
) -> list[SmokeFound]:
    """Checks every query until it works or time is over.

    Args:
        client: a client of query servers that must return every table's newest result, too.

    Raises:
        HoldfastError: a query does not work; the message says what is missing.
        IncompatibleStatement: the state belongs to another statement.
    """
    look = _Look(settings, Observer(settings.client(), settings.application_id), client)
    deadline = time.monotonic() + timeout_s
    found = []
    for query in topology.queries:
        tell(f"looking at {query.sink.name}")
        found.append(_patiently(query, look, deadline))
    return found


@dataclass(frozen=True)
class _Look:
    """The places to look at."""

    settings: Settings
    observer: Observer
    client: Client | None


def _patiently(query: Query, look: _Look, deadline: float) -> SmokeFound:
    while True:
        try:
            found = _look(query, look)
            return replace(found, statement=query.statement, internal=query.sink.internal)
        except HoldfastError as error:
            final = isinstance(error, Refused) and not isinstance(error, TopicMissing)
            if final or time.monotonic() >= deadline:
                raise
            time.sleep(_POLL_S)


def _look(query: Query, look: _Look) -> SmokeFound:
    observer = look.observer
    topics = sorted({source.topic for source in query.sources})
    bounds = {(t, p): found for t in topics for p, found in observer.bounds(t).items()}
    records = sum(end - start for start, end in bounds.values())
    if not records:
        note = f"its source topic {' and '.join(topics)} is empty"
        return SmokeFound(query.id, query.sink.name, 0, 0, None, note)
    if query.stateful:
        markers = _state_markers(query, look.settings)
        committed = len(markers)
    else:
        markers, committed = [], _committed_offsets(query, observer, bounds)
    decoded, newest, note = _sample(query, observer, look.settings)
    served = None
    if look.client is not None and query.sink.kind == "TABLE" and not query.sink.internal:
        job = look.settings.application_id
        served = read_back(look.client, observer.bounds, query, job, newest)
    sample = {"key": list(newest.key), "value": newest.row} if newest.key is not None else None
    left_out = _left_out(query, look.settings, markers)
    warnings = left_out.warnings(look.settings.warn)
    return SmokeFound(
        query.id, query.sink.name, committed, decoded, sample, note, served, left_out, warnings
    )


def _left_out(query: Query, settings: Settings, markers: Sequence[CommitMarker]) -> LeftOut:
    counts = ProgressCounts(settings.client(), progress_topic(settings.application_id, query.id))
    try:
        counted = counts.counted()
    except TopicMissing:  # a query with state that sets nothing aside has no such topic
        counted = Counted()
    finally:
        counts.close()
    if query.stateful:
        return left_out_with_state(markers, counted)
    return left_out_without_state(counted)


def _state_markers(query: Query, settings: Settings) -> list[CommitMarker]:
    """The last commit marker of every state partition."""
    application_id = settings.application_id
    layout = read_layouts(settings.client(), application_id).get(query.id, GENERATION_0)
    partitions = layout.of(settings).state.partitions
    changelog = changelog_topic(application_id, query.id, layout.generation)
    name = state_name(query.id, layout.generation)
    markers = last_markers(settings.client(), changelog, partitions)
    for p, marker in enumerate(markers):
        check_marker(
            marker,
            query,
            partitions,
            owner=store_name(application_id, name, p),
        )
    missing = [p for p, marker in enumerate(markers) if marker is None]
    if missing:
        raise HoldfastError(
            f"{query.id}: {len(missing)} of {partitions} state partitions have committed nothing "
            f"({missing}), though the source topic {query.source.topic} holds records.",
            cause="the job does not run, or its first batch is not finished",
            action="look at its status and at the driver's log",
        )
    return [marker for marker in markers if marker is not None]


def _committed_offsets(
    query: Query, observer: Observer, bounds: Mapping[Place, tuple[int, int]]
) -> int:
    """The offsets committed by a query without state, from its consumer group."""
    lag = observer.lag(query)
    if lag.committed <= sum(start for start, _ in bounds.values()):
        raise HoldfastError(
            f"{query.id} has committed no offset of the topic {query.source.topic}, "
            f"which ends at {lag.end}.",
            cause="the job does not run, or its first batch is not finished",
            action="look at its status and at the driver's log",
        )
    return len(bounds)


def _sample(query: Query, observer: Observer, settings: Settings) -> tuple[int, Newest, str]:
    """(records decoded, the newest result, a note), from the newest records of the sink."""
    sink = query.sink
    every = observer.bounds(sink.topic)
    bounds = {p: (max(start, end - _SAMPLE), end) for p, (start, end) in every.items()}
    bounds = {p: (start, end) for p, (start, end) in bounds.items() if start < end}
    try:
        read_key, read_value = _readers(query, settings)
    except Untranslatable as other:
        return 0, Newest(every, None, None), f"{other} are not decoded here"
    decoded, newest = 0, dict[tuple[Any, ...], Any]()
    for record in observer.records(sink.topic, bounds):
        try:
            key, row = read_key(record.key), read_value(record.value)
        except (ValueError, TypeError) as error:
            raise HoldfastError(
                f"{query.id}: the record at offset {record.offset} of topic {sink.topic} partition "
                f"{record.partition} cannot be decoded: {error}.",
                cause="another program writes to the sink topic, or the formats were changed",
                action="give the sink a topic of its own (KAFKA_TOPIC)",
            ) from error
        decoded += 1
        newest.pop(key, None)  # the newest record of a key is last, and a tombstone removes the key
        if row is not None:
            newest[key] = row
    last = next(reversed(newest), None)
    found = Newest(every, last, newest[last] if last is not None else None)
    return decoded, found, "" if decoded else "it has no results yet"


def _readers(query: Query, settings: Settings) -> tuple[Callable[..., Any], Callable[..., Any]]:
    sink = query.sink
    windowed, sessions = sink.window is not None, sink.window is WindowKind.SESSION
    plain = AsJson(sink, registry_of(settings.registry.client()))
    decoder = SinkDecoder(
        sink.key_columns, sink.value_columns, plain.formats, windowed=windowed, sessions=sessions
    )

    def row(data: bytes | None) -> Any:
        return decoder.row(plain.value(data))

    if not sink.key_columns or sink.key_format is Format.NONE:
        return lambda _: (), row
    return lambda data: decoder.full_key(plain.key(data)), row
