"""Links to the traces of records: which headers are one, and how many a batch has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import INVALID_SPAN_CONTEXT, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from holdfast.types.trace_links import LOOKED_AT, TRACEPARENT, TraceLink, TraceLinks, chosen

TRACE, SPAN = b"4bf92f3577b34da6a3ce929d0e0e4736", b"00f067aa0ba902b7"
HEADER = b"00-" + TRACE + b"-" + SPAN + b"-01"


def links_of(*headers: bytes, most: int = 100) -> tuple[TraceLink, ...]:
    links = TraceLinks(most, "t", 3)
    links.see(enumerate(headers))
    return links.found


def header(number: int) -> bytes:
    return b"00-%032x-%016x-01" % (number, number)


def link(number: int, topic: str = "t") -> TraceLink:
    return TraceLink(topic, 0, number, number, number)


@pytest.mark.parametrize(
    "text", [HEADER, HEADER[:-1] + b"3", b"01" + HEADER[2:], b"cc" + HEADER[2:] + b"-what comes"]
)
def test_a_link_to_the_span_that_made_a_record(text: bytes) -> None:
    assert links_of(b"", text) == (TraceLink("t", 3, 1, int(TRACE, 16), int(SPAN, 16)),)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        TRACE,
        HEADER.upper(),
        HEADER + b"\n",
        b" " + HEADER,
        HEADER + b"-more",  # version 00 has no more
        b"01" + HEADER[2:] + b"more",
        b"ff" + HEADER[2:],
        HEADER[:-2] + b"00",  # nobody keeps the trace
        HEADER[:-2] + b"0x",
        b"00-" + b"0" * 32 + b"-" + SPAN + b"-01",
        b"00-" + TRACE + b"-" + b"0" * 16 + b"-01",
        b"00-" + TRACE + b"-" + SPAN,
        HEADER * 1000,
    ],
)
def test_what_is_no_traceparent_or_leads_nowhere_is_ignored(text: bytes) -> None:
    assert links_of(text) == ()


@given(st.binary(max_size=80) | st.from_regex(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-0[01](-a)?"))
def test_it_finds_what_opentelemetry_finds(text: bytes) -> None:
    carrier = {TRACEPARENT: text.decode("latin-1")}
    context = TraceContextTextMapPropagator().extract(carrier)
    told = get_current_span(context).get_span_context()
    expected = told.is_valid and told.trace_flags.sampled and text == text.strip()
    found = links_of(text)
    assert bool(found) == expected, (text, told != INVALID_SPAN_CONTEXT)
    if found:
        assert (found[0].trace_id, found[0].span_id) == (told.trace_id, told.span_id)


def test_no_header_is_read_for_which_there_is_no_room() -> None:
    def endless() -> Iterator[tuple[int, bytes]]:
        yield from enumerate(map(header, range(1, 4)))
        pytest.fail("one header too many was read")

    links = TraceLinks(3, "t", 0)
    links.see(endless())
    assert len(links.found) == 3
    links.see(endless())
    nothing = TraceLinks(0, "t", 0)
    nothing.see((0, pytest.fail("a header was read")) for _ in range(1))
    assert nothing.found == ()


def test_a_topic_partition_is_looked_at_for_so_long_only() -> None:
    links = TraceLinks(3, "t", 0)
    links.see((n, None) for n in range(LOOKED_AT - 2))
    links.see([(9, header(1)), (10, None), (11, header(2))])
    assert [each.offset for each in links.found] == [9]


def test_records_of_one_span_are_one_link() -> None:
    assert [each.offset for each in links_of(*[header(1)] * 50, header(2))] == [0, 50]
    assert chosen([[link(1)], [link(1, "u")], [link(2)]], 9) == [link(1), link(2)]


def test_a_topic_partition_with_many_traces_leaves_room_for_others() -> None:
    many, few = [link(n) for n in range(1, 100)], [link(n, "few") for n in (200, 201)]
    found = chosen([many, few], 10)
    assert len(found) == 10
    assert [each for each in found if each.topic == "few"] == few
    assert chosen([many, few], 0) == chosen([], 5) == []
