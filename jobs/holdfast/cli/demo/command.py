"""The click command of the demo."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType

import click

__all__ = ["command"]


@click.command("demo")
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".holdfast", "demo"),
    show_default=True,
    help="The demo's own folder; it is wiped first.",
)
@click.option(
    "--rate",
    type=click.IntRange(min=100),
    default=5_000,
    show_default=True,
    help="Flights per second.",
)
@click.option("--limit", type=click.IntRange(min=1_000), help="Stream only so many flights.")
@click.option(
    "--airflow",
    metavar="CMD",
    help="Let Airflow's DAGs deploy the job: path of an `airflow` executable.",
)
@click.option(
    "--keep", is_flag=True, help="Leave Kafka, the job and a query server with its console running."
)
@click.pass_context
def command(
    ctx: click.Context, home: Path, rate: int, limit: int | None, airflow: str | None, keep: bool
) -> None:
    """Run the main job on real input, kill it twice, and prove that its tables are exact.

    Streams the 336,776 flights that left New York City in 2013 into a real Kafka; meanwhile an
    executor and then the driver are killed with SIGKILL, and recover by themselves. Every step is
    an ordinary command, shown as it runs. Exits with 0 only if both kills hit a working job and
    every table equals the one recomputed from its input.
    """
    from holdfast.cli.demo.screen import Screen
    from holdfast.cli.demo.script import Demo, DemoOptions

    if keep and airflow is not None:
        raise click.UsageError("--keep and --airflow do not go together.")
    signal.signal(signal.SIGTERM, _interrupt)
    good = Demo(DemoOptions(home, rate, limit, airflow, keep), Screen()).play()
    ctx.exit(0 if good else 1)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Handle SIGTERM as Ctrl-C, which cleans up."""
    raise KeyboardInterrupt
