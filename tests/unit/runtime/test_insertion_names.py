"""INSERT INTO … VALUES is written once: its name is the same in every release."""

from __future__ import annotations

from holdfast.runtime.insertions import insertion_names
from holdfast.sql import compile_text

_STREAM = "CREATE STREAM s (k STRING KEY, v {}) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');\n"


def _names(of: str, *values: str) -> list[bytes]:
    inserts = "".join(f"INSERT INTO s {each};\n" for each in values)
    return list(insertion_names(compile_text(_STREAM.format(of) + inserts).insertions))


def test_names_are_those_of_the_release() -> None:
    names = _names(
        "INT",
        "(k, v) VALUES ('a', 1 + 1)",
        "(rowtime, k, v) VALUES (1000, 'a', 2)",
        "(k, v) VALUES ('a', 1 + 1)",
    )
    assert names == [b"46cf3b99094c7fe3", b"e5c3bb677772a7ee", b"69e0242abec1e2fa"]


def test_an_engine_s_new_text_is_no_new_record() -> None:
    # REPLACE is evaluated by another function than when it was released.
    assert _names("STRING", "(k, v) VALUES ('a', REPLACE('x', 'x', 'yy'))") == [b"b126be0c4a1731ec"]
