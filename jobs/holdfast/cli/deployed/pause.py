"""`holdfast pause`: an order to a query of a running job."""

from __future__ import annotations

import click

from holdfast.cli.deployed.steer import Asked, steer, steer_options

__all__ = ["command"]


@click.command("pause")
@steer_options
def command(asked: Asked) -> int:
    """Hold QUERY of a running job: its batch in hand ends, and it takes no more.

    It stays paused when the driver starts again. `holdfast resume` lets it go on exactly where it
    stopped. Nothing is read meanwhile: mind how long its topics keep their records.
    """
    return steer(asked, "PAUSE")
