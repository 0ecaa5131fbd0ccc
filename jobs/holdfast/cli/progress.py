"""Progress of commands: a status line on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["progress_bars", "record_bar", "reporter"]


@contextmanager
def reporter() -> Iterator[Callable[[str], None]]:
    """A function that shows the current activity on standard error."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines()
        return
    with console.status("") as status:
        yield lambda text: status.update(f"{text} …")


def _lines() -> Callable[[str], None]:
    """A function that prints its text, but not the same text twice in a row."""
    last = ""

    def tell(text: str) -> None:
        nonlocal last
        if text != last:
            click.echo(f"{text} …", err=True)
        last = text

    return tell


@contextmanager
def record_bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar of records on standard error; silent if it is not a terminal.

    Args:
        what: its label.
        total: records to come, None when unknown.

    Yields:
        A function that takes the number of further records done.
    """
    with progress_bars() as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)


def progress_bars() -> Progress:
    """Bars with counts on standard error; silent if it is not a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
