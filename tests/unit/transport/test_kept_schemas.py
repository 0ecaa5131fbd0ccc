"""Schemas that one worker found, and the next one knows while the registry is away."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import RegistryUnavailable, SchemaMissing
from holdfast.transport.registry import MemoryRegistry
from holdfast.transport.registry.kept import KeptSchemas, folder_of_executor
from holdfast.types.columns.schemas import Schema, SchemaKind
from tests.support.servers.away_registry import AwayRegistry

_SCHEMA = Schema(SchemaKind.PROTOBUF, "message ü {}", (("a.proto", "x"), ("b.proto", "y")))


def test_another_worker_knows_it_without_the_registry(tmp_path: Path) -> None:
    behind = MemoryRegistry()
    behind.put("s", _SCHEMA, 7)
    folder = tmp_path / "schemas"
    assert KeptSchemas(behind, folder).by_id(7) == _SCHEMA
    assert KeptSchemas(AwayRegistry(), folder).by_id(7) == _SCHEMA
    with pytest.raises(RegistryUnavailable):
        KeptSchemas(AwayRegistry(), folder).by_id(8)


def test_a_denied_id_is_asked_for_again(tmp_path: Path) -> None:
    behind = MemoryRegistry()
    kept = KeptSchemas(behind, tmp_path)
    with pytest.raises(SchemaMissing):
        kept.by_id(7)
    behind.put("s", _SCHEMA, 7)
    assert kept.by_id(7) == _SCHEMA


@pytest.mark.parametrize("damaged", [b"", b"[]", b'["AVRO"', b'["NONE", "x", []]', b"\xff", b"7"])
def test_a_damaged_file_is_asked_for_again(tmp_path: Path, damaged: bytes) -> None:
    behind = MemoryRegistry()
    behind.put("s", _SCHEMA, 7)
    (tmp_path / "7.json").write_bytes(damaged)
    assert KeptSchemas(behind, tmp_path).by_id(7) == _SCHEMA


def test_a_folder_that_cannot_be_written_costs_nothing_but_requests(tmp_path: Path) -> None:
    behind = MemoryRegistry()
    behind.put("s", _SCHEMA, 7)
    (tmp_path / "file").touch()
    assert KeptSchemas(behind, tmp_path / "file").by_id(7) == _SCHEMA
    assert KeptSchemas(behind, tmp_path / "none" / "none").by_id(7) == _SCHEMA


def test_only_folders_that_end_with_their_executor_are_used() -> None:
    def folder(url: str, value: str) -> Path | None:
        return folder_of_executor(url, {"SPARK_LOCAL_DIRS": value})

    assert folder_of_executor("http://a", {}) is None
    assert folder("http://a", "/var/data/spark-1,/tmp") is None
    found = folder("http://a", "/var/x/blockmgr-1,/var/x/blockmgr-2")
    assert found is not None
    assert found.parent == Path("/var/x/blockmgr-1")
    assert folder("http://b", "/var/x/blockmgr-1") != found
