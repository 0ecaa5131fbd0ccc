"""The modules that chaos runs in an executor's pod, with a real Redis and a folder of snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from holdfast.cli.in_pod import remote_stores, snapshots
from holdfast.config.settings import StateSettings
from holdfast.errors import StoreUnavailable
from holdfast.state import open_table_store
from holdfast.state.table_store import StorePosition
from tests.support.servers.redis_server import RedisServer

PASSWORD = "canary"


def _properties(folder: Path, **more: str) -> Path:
    path = folder / "properties.yaml"
    names = {name.replace("_", "."): value for name, value in more.items()}
    path.write_text(yaml.safe_dump({"application.id": "app", **names}))
    return path


def _asked(capsys: pytest.CaptureFixture[str]) -> Any:
    return orjson.loads(capsys.readouterr().out)


def test_stores_in_a_database_are_listed_read_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    password = tmp_path / "password"
    password.write_text(f"{PASSWORD}\n")
    with RedisServer(tmp_path, "--user", "clerk", "on", f">{PASSWORD}", "~*", "+@all") as redis:
        settings = redis.settings("clerk", str(password))
        properties = _properties(
            tmp_path, state_backend="remote", state_remote_uri=redis.uri,
            state_remote_user="clerk", state_remote_password_file=str(password),
        )  # fmt: skip
        state = StateSettings(backend="remote", remote=settings)
        for partition in (0, 1):
            store = open_table_store(state, None, "app", "ctas_t", partition, windowed=False)
            position = StorePosition("id", 7, 1, "fp")
            store.apply([b"a"], [b"1"], created=[b"a"], removed=0, position=position, marker=None)
            store.close()
        remote_stores.main("list", properties)
        assert _asked(capsys) == [["app", "ctas_t", 0], ["app", "ctas_t", 1]]
        remote_stores.main("digests", properties)
        assert [(d["partition"], d["rows"], d["position"]) for d in _asked(capsys)] == [
            (0, 1, 7), (1, 1, 7),
        ]  # fmt: skip
        remote_stores.main("remove", properties)
        assert _asked(capsys) == 2
        remote_stores.main("list", properties)
        assert _asked(capsys) == []
        redis.kill()
        with pytest.raises(StoreUnavailable) as away:
            remote_stores.main("list", properties)
        assert PASSWORD not in str(away.value)


def test_snapshots_in_a_folder_are_looked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = _properties(tmp_path, snapshot_uri=str(tmp_path / "snapshots"))
    for what in ("list", "damage"):
        snapshots.main(what, properties)
        assert _asked(capsys) == []
    (tmp_path / "other").write_bytes(b"")
    snapshots.main("wrong", properties, str(tmp_path / "other"))
    assert _asked(capsys) == [str(tmp_path / "other")]
