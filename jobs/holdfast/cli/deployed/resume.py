"""`holdfast resume`: a paused query of a running job goes on."""

from __future__ import annotations

import click

from holdfast.cli.deployed.steer import Asked, steer, steer_options

__all__ = ["command"]


@click.command("resume")
@steer_options
@click.option("--restore", is_flag=True, help="A query that was terminated starts again, too.")
def command(asked: Asked, restore: bool) -> int:
    """Let QUERY of a running job go on, exactly where it was paused."""
    return steer(asked, "RESUME", restore=restore)
