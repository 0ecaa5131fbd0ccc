"""`holdfast terminate`: ends a query of a running job for good."""

from __future__ import annotations

import click

from holdfast.cli.deployed.steer import Asked, steer, steer_options

__all__ = ["command"]


@click.command("terminate")
@steer_options
def command(asked: Asked) -> int:
    """End QUERY of a running job for good; its topics and its state stay.

    No driver starts it again until its statement in the file changes (it is created anew), or
    `holdfast resume QUERY --restore` is run.
    """
    return steer(asked, "TERMINATE")
