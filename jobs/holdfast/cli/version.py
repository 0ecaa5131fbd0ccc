"""`holdfast version`: prints versions, for bug reports."""

from __future__ import annotations

import platform
from importlib import metadata

import click

from holdfast import __version__
from holdfast.config.versions import KAFKA_VERSION

__all__ = ["command"]

_PARTS = ("pyspark", "confluent-kafka", "rocksdict", "pyarrow", "sqlglot", "duckdb")


@click.command("version")
def command() -> None:
    """Print the versions of Holdfast and its parts."""
    click.echo(f"holdfast {__version__}")
    click.echo(f"python {platform.python_version()}")
    click.echo(f"kafka (local) {KAFKA_VERSION}")
    for part in _PARTS:
        click.echo(f"{part} {metadata.version(part)}")
