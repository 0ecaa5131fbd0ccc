"""Errors of processes that Spark runs keep their kind, fact, cause and action."""

from __future__ import annotations

from holdfast.errors import Fenced, HoldfastError, UndecodableRecord
from holdfast.runtime.jvm.failures import from_spark

TEXT = """[STREAM_FAILED] Query terminated with exception: Job aborted due to stage failure:
Traceback (most recent call last):
  File "source.py", line 7, in read
    raise undecodable()
holdfast.errors.UndecodableRecord: Record 7 of partition 2 is no JSON.
Likely cause: another program writes to the topic.
What to do: set deserialization.error=dead-letter.

\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)
"""


def test_an_error_of_ours_is_found_in_the_text() -> None:
    found = from_spark("q", RuntimeError(TEXT))
    assert isinstance(found, UndecodableRecord)
    assert found.fact == "Record 7 of partition 2 is no JSON."
    assert found.cause == "another program writes to the topic."
    assert found.action == "set deserialization.error=dead-letter."


def test_java_frames_right_behind_the_error_are_no_part_of_it() -> None:
    text = "holdfast.errors.DataLoss: Gone.\n\tat org.apache.spark.Foo(Foo.scala:1)"
    assert str(from_spark("q", RuntimeError(text))) == "Gone."


def test_any_other_failure_names_the_query_and_keeps_its_words() -> None:
    found = from_spark("ctas_t", RuntimeError("out of memory\n\tat java.Foo"))
    assert type(found) is HoldfastError
    assert "ctas_t stopped: out of memory" in str(found)
    assert "java.Foo" not in str(found)


def test_our_own_errors_pass_through() -> None:
    error = Fenced("newer")
    assert from_spark("q", error) is error
