"""`holdfast pause`: pauses a query of a running job."""

from __future__ import annotations

import click

from holdfast.cli.deployed.steer import Asked, steer, steer_options

__all__ = ["command"]


@click.command("pause")
@steer_options
def command(asked: Asked) -> int:
    """Pause QUERY of a running job after its current batch.

    It stays paused across restarts of the driver. `holdfast resume` continues exactly where it
    stopped. Nothing is read meanwhile, so mind the retention of its topics.
    """
    return steer(asked, "PAUSE")
