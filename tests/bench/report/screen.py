"""What a benchmark shows while it runs, on standard error: bars on a terminal, lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["Screen"]


class Screen:
    """Says what is being done."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)

    def say(self, text: str) -> None:
        """One line."""
        self._console.print(text, markup=False)

    @contextmanager
    def bar(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar of records; yields what is told how many are done, in all."""
        if not self._console.is_terminal:
            self.say(what)
            yield lambda _: None
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console, transient=True) as progress:
            task = progress.add_task(what, total=total)
            yield lambda done: progress.update(task, completed=done)
