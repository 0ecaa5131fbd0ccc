from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from holdfast.config.properties import PROPERTIES, default_text
from holdfast.config.settings import Settings
from holdfast.config.table import markdown, rows
from holdfast.types.words import nearest

_DEFAULTS = Settings(application_id="")


def _leaves(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    assert dataclasses.is_dataclass(value)
    for field in dataclasses.fields(value):
        inner = getattr(value, field.name)
        here = (*path, field.name)
        if dataclasses.is_dataclass(inner):
            yield from _leaves(inner, here)
        else:
            yield here


def test_every_setting_is_reachable_by_exactly_one_property() -> None:
    reached = [p.path for p in PROPERTIES.values() if p.path]
    assert len(reached) == len(set(reached))
    # `kafka` is reached by the kafka.* properties.
    assert set(reached) == set(_leaves(_DEFAULTS)) - {("kafka",)}


@pytest.mark.parametrize("name", sorted(PROPERTIES))
def test_the_default_is_a_value_the_property_takes(name: str) -> None:
    prop = PROPERTIES[name]
    if not prop.path:
        assert str(prop.kind.parse(prop.default)).lower() == prop.default
    elif prop.default == "":
        value: object = _DEFAULTS
        for field in prop.path:
            value = getattr(value, field)
        given = list(value) if isinstance(value, tuple) else value
        assert prop.kind.parse(given) == value


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("bootstrap.server", "bootstrap.servers"),
        ("STATE.PARTITIONS", "state.partitions"),
        ("rocksdb.bloom.bits", "rocksdb.bloom.bits.per.key"),
        ("qqqqqq", None),
    ],
)
def test_the_nearest_name(typed: str, meant: str | None) -> None:
    assert nearest(typed, PROPERTIES) == meant


def test_the_table_has_a_row_per_property_and_fits_markdown() -> None:
    table = list(rows())
    assert [row[0] for row in table] == [*PROPERTIES, "ksql.functions.<name>.limit", "kafka.*"]
    lines = markdown().splitlines()
    assert len(lines) == len(table) + 2
    assert {line.count("|") for line in lines} == {5}
    assert "| `state.partitions` | `8` | 1 to 1,024 |" in markdown()


def test_defaults_are_shown_as_one_would_type_them() -> None:
    assert default_text(PROPERTIES["fail.on.data.loss"]) == "true"
    assert default_text(PROPERTIES["state.backend"]) == "rocksdb"
    assert default_text(PROPERTIES["state.dir"]) == "<home>/state"
