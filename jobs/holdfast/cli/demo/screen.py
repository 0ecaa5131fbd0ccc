"""The demo's output: commands as a user would type them, progress, results."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from holdfast.cli.look.view import console

__all__ = ["Bar", "Screen"]

_PLAIN_EVERY_S = 10.0
_WAITED_EVERY_S = 3.0


class Bar:
    """Records produced and committed: two bars on a terminal, periodic lines elsewhere."""

    def __init__(self, console: Console, progress: Progress, total: int) -> None:
        self._console, self._progress, self._total = console, progress, total
        self._produced = progress.add_task("flights produced", total=total, note="")
        self._committed = progress.add_task("flights committed", total=total, note="")
        self._next_line = time.monotonic()

    def update(self, produced: int, committed: int, note: str) -> None:
        """Show the progress; `note` says what the job is doing."""
        if self._console.is_terminal:
            self._set(self._produced, produced, "")
            self._set(self._committed, committed, note)
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _PLAIN_EVERY_S
            share = committed / self._total
            text = (
                f"  flights: {produced:,} produced, {committed:,} committed ({share:.0%}); {note}"
            )
            self._console.print(text, highlight=False)

    def _set(self, task: TaskID, completed: int, note: str) -> None:
        self._progress.update(task, completed=completed, note=note)


class _Lines:
    """Owns what was last printed of a wait."""

    def __init__(self, console: Console) -> None:
        self._console, self._last = console, ""
        self._began = time.monotonic()
        self._next = 0.0

    def tell(self, line: str) -> None:
        now = time.monotonic()
        if line != self._last and now >= self._next:
            self._last, self._next = line, now + _WAITED_EVERY_S
            text = Text(f"  {now - self._began:3.0f} s  {line}")
            self._console.print(text, soft_wrap=True, highlight=False)


class Screen:
    """Prints the demo's output."""

    def __init__(self) -> None:
        self.console = console()
        self._began = time.monotonic()

    def title(self, text: str) -> None:
        """Print the title of an act."""
        seconds = time.monotonic() - self._began
        self.console.print(f"\n[bold]{text}[/bold] [dim]({seconds:.0f} s)[/dim]", highlight=False)

    def command(self, arguments: Sequence[str], note: str = "") -> None:
        """Print a Holdfast command that is about to run, as one would type it."""
        self.command_line(["holdfast", *arguments], note)

    def command_line(self, command: Sequence[str], note: str = "") -> None:
        """Print any command, as one would type it."""
        self._green(f"$ {shlex.join(command)}", f"# {note}" if note else "")

    def statement(self, sql: str, answer: str) -> None:
        """Print a statement that a client asked, and its answer."""
        self._green(f"  {sql}", f"→ {answer}")

    def _green(self, text: str, aside: str) -> None:
        line = Text(text, style="green")
        if aside:
            line.append(f"   {aside}", style="dim not green")
        self.console.print(line, soft_wrap=True)

    @contextmanager
    def waiting(self, first: str) -> Iterator[Callable[[str], None]]:
        """A bar with the elapsed time, and the line that its function is given, `first` at first.

        Elsewhere than on a terminal the line is printed, with the time, whenever it has changed
        and at most every few seconds.
        """
        columns = (
            BarColumn(bar_width=20),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
        )
        plain = not self.console.is_terminal
        with Progress(*columns, console=self.console, transient=True, disable=plain) as progress:
            task = progress.add_task(first, total=None)
            lines = _Lines(self.console) if plain else None

            def tell(line: str) -> None:
                progress.update(task, description=line or first)
                if lines is not None:
                    lines.tell(line or first)

            yield tell

    def say(self, text: str) -> None:
        self.console.print(f"  {text}", highlight=False)

    def show(self, what: RenderableType) -> None:
        self.console.print(what)

    @contextmanager
    def bar(self, total: int) -> Iterator[Bar]:
        """Context with bars of `total` records."""
        columns = (
            TextColumn("  {task.description:<17}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:>9,}/{task.total:,}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", style="dim"),
        )
        disable = not self.console.is_terminal
        with Progress(*columns, console=self.console, transient=True, disable=disable) as progress:
            yield Bar(self.console, progress, total)
