"""`holdfast resume`: resumes a paused query of a running job."""

from __future__ import annotations

import click

from holdfast.cli.deployed.steer import Asked, steer, steer_options

__all__ = ["command"]


@click.command("resume")
@steer_options
@click.option("--restore", is_flag=True, help="Also start a terminated query again.")
def command(asked: Asked, restore: bool) -> int:
    """Resume QUERY of a running job exactly where it was paused."""
    return steer(asked, "RESUME", restore=restore)
