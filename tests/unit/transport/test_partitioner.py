from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.transport.partitioner import (
    murmur2_partition,
    murmur2_partitions,
    spark_hash,
    state_partition,
    state_partitions,
)

# Made with Kafka's own `Utils.murmur2` and Spark's own `hash(binary)`.
VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text())
KEYS = [bytes.fromhex(v["key"]) for v in VECTORS]
POSITIVE = 0x7FFFFFFF


@pytest.mark.parametrize("partitions", [1, 3, 8, 1000, POSITIVE])
def test_topic_partitions_are_those_of_java_producers(partitions: int) -> None:
    expected = [(v["kafka_murmur2"] & POSITIVE) % partitions for v in VECTORS]
    assert [murmur2_partition(key, partitions) for key in KEYS] == expected
    assert murmur2_partitions(KEYS, partitions) == expected


def test_hashes_are_those_of_spark() -> None:
    assert [spark_hash(key) for key in KEYS] == [v["spark_hash"] for v in VECTORS]


def test_state_partitions_are_spark_s_positive_remainder() -> None:
    negative = [v["spark_hash"] for v in VECTORS if v["spark_hash"] < 0]
    assert negative, "the vectors must cover negative hashes"
    assert [state_partition(key, 8) for key in KEYS] == [v["spark_hash"] % 8 for v in VECTORS]


@pytest.mark.parametrize("length", [1_021, 1_024, 1_025, 1_029, 1_031, 5_000])
def test_long_keys_go_alone_where_they_go_in_company(length: int) -> None:
    """Alone a key is hashed by its own columns, in company by those of all keys of its length."""
    random = Random(length)
    keys = [random.randbytes(length) for _ in range(200)]
    together = murmur2_partitions(keys, 97)
    assert together == [murmur2_partition(key, 97) for key in keys]
    assert together == [place for key in keys for place in murmur2_partitions([key], 97)]
    places = state_partitions(pa.array(keys, pa.binary()), 97).tolist()
    assert places == [state_partition(key, 97) for key in keys]
    assert places == [state_partitions(pa.array([key], pa.binary()), 97)[0] for key in keys]


def test_records_without_a_key_spread_over_all_partitions() -> None:
    assert {murmur2_partition(None, 3) for _ in range(200)} == {0, 1, 2}


@given(st.lists(st.binary(max_size=40)), st.integers(1, 50))
def test_many_keys_at_once_go_where_each_alone_goes(keys: list[bytes], partitions: int) -> None:
    assert murmur2_partitions(keys, partitions) == [murmur2_partition(k, partitions) for k in keys]
