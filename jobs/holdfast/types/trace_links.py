"""Links from a batch's trace to those of the records that it read, by W3C Trace Context.

A record's header `traceparent` is `<version>-<trace id>-<span id>-<flags>` in lower-case hex. A
link to a trace that nobody keeps (its flag says that it is not sampled) would lead nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, zip_longest

__all__ = ["LOOKED_AT", "TRACEPARENT", "TraceLink", "TraceLinks", "chosen"]

TRACEPARENT = "traceparent"
LOOKED_AT = 2_000
"""How many records with headers of a topic partition are looked at in a batch."""

# A later version may have more after the flags, but not ff, and not 00.
_FORM = re.compile(
    rb"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL
)
_SAMPLED = 0x01


@dataclass(frozen=True, slots=True)
class TraceLink:
    """The span that has made a record, and the record's place."""

    topic: str
    partition: int
    offset: int
    trace_id: int
    span_id: int


class TraceLinks:
    """Gathers the links of a topic partition's records: the first `most` different spans.

    It gives up after so many records with headers: reading them takes longer than fetching them.
    """

    def __init__(self, most: int, topic: str, partition: int) -> None:
        self._most, self._topic, self._partition = most, topic, partition
        self._left = LOOKED_AT if most else 0
        self._found: dict[tuple[int, int], TraceLink] = {}

    @property
    def found(self) -> tuple[TraceLink, ...]:
        """The links so far, in the order of their records."""
        return tuple(self._found.values())

    def see(self, headers: Iterable[tuple[int, bytes | None]]) -> None:
        """Takes offsets and `traceparent` headers; reads no further than there is room."""
        if not self._left:
            return
        for offset, text in headers:
            self._left -= 1
            span = None if text is None else _span(text)
            if span is not None:
                link = TraceLink(self._topic, self._partition, offset, *span)
                self._found.setdefault(span, link)
                if len(self._found) == self._most:
                    self._left = 0
            if not self._left:
                return


def chosen(groups: Iterable[Iterable[TraceLink]], most: int) -> list[TraceLink]:
    """At most so many links of different spans, of each group as many as of the others."""
    found: dict[tuple[int, int], TraceLink] = {}
    for link in chain.from_iterable(zip_longest(*groups)):
        if len(found) >= most:
            break
        if link is not None:
            found.setdefault((link.trace_id, link.span_id), link)
    return list(found.values())


def _span(text: bytes) -> tuple[int, int] | None:
    """Trace id and span id; None if it is no header of a sampled trace."""
    form = _FORM.fullmatch(text)
    if form is None:
        return None
    version, trace, span, flags, more = form.groups()
    trace_id, span_id = int(trace, 16), int(span, 16)
    known = bool(trace_id and span_id) and not (version == b"00" and more)
    return (trace_id, span_id) if known and int(flags, 16) & _SAMPLED else None
