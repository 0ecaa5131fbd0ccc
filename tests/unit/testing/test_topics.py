"""In which order queries read their topics."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidTestCase
from holdfast.sql import compile_text
from holdfast.testing.bytes_of import RawRecord
from holdfast.testing.cases import Spec
from holdfast.testing.topics import Topics

TOPOLOGY = compile_text(
    "CREATE STREAM A (V STRING) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='DELIMITED');"
    "CREATE STREAM B (V STRING) WITH (KAFKA_TOPIC='b', VALUE_FORMAT='DELIMITED');"
    "CREATE STREAM C AS SELECT V FROM A;"
    "CREATE STREAM D AS SELECT V FROM B;"
)


def _topics() -> Topics:
    specs = [("a", "1"), ("b", "2"), ("a", "3")]
    return Topics(TOPOLOGY, [Spec(topic, None, value) for topic, value in specs])


def test_inputs_come_in_the_order_in_which_they_were_given() -> None:
    piped, causes = _topics().piped(["b", "a", "b"], {})
    assert causes == [0, 1, 2]
    assert [r.value for r in piped["a"].records] == [b"1", b"3"]
    assert piped["a"].order == [0, 2]
    assert piped["b"].order == [1]


def test_what_queries_wrote_comes_after_the_inputs_topic_by_topic() -> None:
    topics = _topics()
    topics.append("D", RawRecord(None, b"4", 0), 0)
    topics.append("C", RawRecord(None, b"5", 0), 0)
    topics.append("D", RawRecord(None, b"6", 0), 0)
    piped, _ = topics.piped(["D", "C", "a"], {})
    assert (piped["a"].order, piped["C"].order, piped["D"].order) == ([0, 1], [2], [3, 4])


def test_what_is_written_to_a_topic_of_inputs_is_not_read_but_can_be_expected() -> None:
    topics = _topics()
    topics.append("a", RawRecord(None, b"late", 0), 0)
    assert len(topics.piped(["a"], {})[0]["a"].records) == 2
    assert [spec.value for spec in topics.decoded("a")] == ["1", "3", "late"]


def test_a_topic_that_no_statement_knows() -> None:
    with pytest.raises(InvalidTestCase, match=r"has the topic x.*\n.*C, D, a, b"):
        Topics(TOPOLOGY, [Spec("x", None, "1")])


def test_what_is_written_later_has_later_causes_and_what_was_there_is_passed_over() -> None:
    topics = _topics()
    there = topics.counts()
    topics.write([("b", RawRecord(None, b"5", 0)), ("a", RawRecord(None, b"6", 0))])
    piped, causes = topics.piped(["a", "b"], there)
    assert causes == [3, 4]
    assert [[r.value for r in piped[t].records] for t in ("a", "b")] == [[b"6"], [b"5"]]
