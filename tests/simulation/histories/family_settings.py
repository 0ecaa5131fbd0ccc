"""The settings of a history's job, as its family wants them."""

from __future__ import annotations

import random
from dataclasses import replace

from holdfast.config.settings import RemoteSettings, Settings, SnapshotSettings
from tests.simulation.fakes.snapshot_place import SnapshotPlace

__all__ = ["with_database", "with_snapshots", "with_standbys"]


def with_standbys(settings: Settings, rng: random.Random) -> Settings:
    state = replace(settings.state, cleanup_delay_ms=rng.choice((0, 600_000)))
    placement = replace(settings.placement, standbys=rng.choice((0, 1, 1, 2)))
    return replace(settings, state=state, placement=placement)


def with_database(settings: Settings) -> Settings:
    remote = RemoteSettings("redis://fake:6379")
    return replace(settings, state=replace(settings.state, backend="remote", remote=remote))


def with_snapshots(settings: Settings, place: SnapshotPlace, rng: random.Random) -> Settings:
    interval_ms, retained = rng.choice((1_000, 10_000, 60_000)), rng.choice((1, 2, 3))
    return replace(settings, snapshots=SnapshotSettings(place.uri, interval_ms, retained))
