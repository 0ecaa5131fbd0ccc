from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path

import orjson
import pytest

from holdfast.cli.samples import SAMPLES
from holdfast.sql import compile_text
from holdfast.types.columns.schema import Base

_FOLDER = Path(__file__).parents[3] / "jobs" / "examples"
# Those for chaos have no example data: `holdfast chaos` makes its records from the declarations.
EXAMPLES = sorted(set(_FOLDER.glob("*.sql")) - set(_FOLDER.glob("chaos*.sql")))
_PYTHON = {Base.STRING: str, Base.INTEGER: int, Base.BIGINT: int, Base.DOUBLE: int | float}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_samples_are_what_the_example_statements_declare(path: Path) -> None:
    by_topic = {sample.topic: sample for sample in SAMPLES.values()}
    by_topic["avro_payments"] = SAMPLES["payments"]  # the demo writes them in Avro, too
    sources = compile_text(path.read_text(encoding="utf-8")).sources
    assert sources
    for source in sources:
        sample = by_topic[source.topic]
        assert sample.partitions == source.partitions
        for event in itertools.islice(sample.events(), 1_000):
            value = {key.upper(): v for key, v in orjson.loads(event.value).items()}
            for column in source.value_columns:
                found = value[column.name]
                assert found is None or isinstance(found, _PYTHON[column.type.base])


@pytest.mark.parametrize("name", ["movies", "sensors", "payments"])
def test_small_samples_are_the_same_every_time_and_in_order_of_time(name: str) -> None:
    sample = SAMPLES[name]
    first, second = list(sample.events()), list(sample.events())
    assert first == second
    assert len(first) == sample.count
    times = [orjson.loads(e.value)["ts"] for e in first]
    assert times == sorted(set(times))


def test_what_a_reader_sees_of_the_sensors() -> None:
    seen: dict[str, list[float]] = defaultdict(list)
    averages = []
    for event in SAMPLES["sensors"].events():
        assert event.key is not None
        value = orjson.loads(event.value)
        assert event.key.decode() == value["sensor"]
        seen[value["sensor"]].append(value["reading"])
        averages.append((value["sensor"], sum(seen[value["sensor"]]) / len(seen[value["sensor"]])))
    assert [a for s, a in averages if s == "sensor-3"] == [67, 59.5]
    assert dict(averages) == {"sensor-1": 45, "sensor-2": 45, "sensor-3": 59.5}


def test_flights_begin_with_the_first_departure_of_the_year() -> None:
    events = list(itertools.islice(SAMPLES["flights"].events(), 2_000))
    first = orjson.loads(events[0].value)
    assert first["ts"] == 1_357_035_300_000  # 2013-01-01T10:15:00Z, 05:15 in New York
    assert (first["carrier"], first["flight"], first["dep_delay"]) == ("UA", 1545, 2)
    assert first["time_hour"] == "2013-01-01T10:00:00Z"
    times = [orjson.loads(e.value)["ts"] for e in events]
    assert times == sorted(times)


def test_all_flights_are_there_and_missing_values_are_null() -> None:
    counts: dict[str, int] = defaultdict(int)
    delay, cancelled, last = 0, 0, 0
    for event in SAMPLES["flights"].events():
        value = orjson.loads(event.value)
        assert event.key == value["carrier"].encode()
        counts[value["carrier"]] += 1
        assert value["ts"] >= last
        last = value["ts"]
        if value["dep_delay"] is None:
            cancelled += 1
        else:
            delay += value["dep_delay"]
    # The data set's own documentation: 336,776 flights of 16 carriers.
    assert sum(counts.values()) == SAMPLES["flights"].count == 336_776
    assert len(counts) == 16
    assert counts["UA"] == 58_665
    assert cancelled == 8_255
    assert delay == 4_152_200
