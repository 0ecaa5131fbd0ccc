"""Where nobody names a broker and none is there, a command says so at once."""

from __future__ import annotations

import pickle
import socket
from dataclasses import replace

import pytest

from holdfast.config.no_broker import or_no_broker
from holdfast.config.settings import Settings
from holdfast.errors import InvalidConfig


@pytest.fixture
def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def test_a_broker_that_is_there_is_used(listening: socket.socket) -> None:
    with listening:
        servers = f"127.0.0.1:{listening.getsockname()[1]}"
        settings = Settings("app", servers)
        assert or_no_broker(settings) is settings


def test_one_that_is_not_there_is_missed_by_the_first_client(listening: socket.socket) -> None:
    servers = f"127.0.0.1:{listening.getsockname()[1]}"
    listening.close()
    found = or_no_broker(Settings("app", servers, home="/some/home"))
    assert found == replace(found)
    assert (found.bootstrap_servers, found.application_id) == (servers, "app")
    for settings in (found, replace(found, metrics_port=1), pickle.loads(pickle.dumps(found))):
        with pytest.raises(InvalidConfig, match=f"/some/home has none .* listens at {servers}"):
            settings.client()
