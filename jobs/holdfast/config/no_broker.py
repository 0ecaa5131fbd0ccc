"""Settings of a command for which nobody has named a broker, and there is none by default."""

from __future__ import annotations

import socket
from dataclasses import fields

from holdfast.config.settings import Settings
from holdfast.errors import InvalidConfig

__all__ = ["or_no_broker"]

_WAIT_S = 0.5


class _NoBroker(Settings):
    """Fails where a client is to be made, instead of after the time that brokers are waited for."""

    def client(self) -> dict[str, str]:
        raise InvalidConfig(
            f"No broker is named, {self.home} has none that runs, and nothing listens at "
            f"{self.bootstrap_servers}.",
            cause="Kafka was not started here, or it was started with another --home",
            action="run `holdfast kafka start`, give the --home that Kafka was started with, or "
            "name your brokers with --set bootstrap.servers=HOST:PORT",
        )


def or_no_broker(settings: Settings) -> Settings:
    """The settings with the default broker, if one is there."""
    host, _, port = settings.bootstrap_servers.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _WAIT_S).close()
    except OSError:
        return _NoBroker(**{each.name: getattr(settings, each.name) for each in fields(settings)})
    return settings
