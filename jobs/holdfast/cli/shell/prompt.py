"""Typing statements: several lines up to a semicolon, history, and completion with Tab."""

from __future__ import annotations

import contextlib
import re
import readline
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from holdfast.cli.shell.session import Session
from holdfast.config.properties import PROPERTIES
from holdfast.sql.functions.catalog import function_names
from holdfast.sql.functions.table_functions import TABLE_FUNCTIONS
from holdfast.sql.parse.dialect import WORDS
from holdfast.sql.parse.text import ends_statement
from holdfast.sql.plan.sources.listing import relations
from holdfast.tasks.aggregates import registry

__all__ = ["COMMANDS", "Completion", "history", "typed"]

COMMANDS = ("exit", "quit", "help", "script", "save")
_FIRST, _NEXT = "sql> ", "...> "
_HISTORY_LINES = 5_000


class Completion:
    """Key words, functions, properties, and the session's streams, tables, columns, queries."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._fixed = {*WORDS, *function_names(), *TABLE_FUNCTIONS, *registry.names(), *PROPERTIES}

    def of(self, start: str) -> list[str]:
        """Completions of `start`, sorted; key words follow the case of the input."""
        topology = self._session.topology
        names = {q.id for q in topology.queries}
        for name, source in relations(topology).items():
            names |= {name, *(c.name for c in (*source.key_columns, *source.value_columns))}
        found = [w for w in self._fixed | names if w.upper().startswith(start.upper())]
        lower = start != "" and start == start.lower()
        return sorted({w.lower() if lower and w in self._fixed else w for w in found})

    def __call__(self, start: str, index: int) -> str | None:
        """readline's protocol: the candidate at `index`, None after the last."""
        found = self.of(start)
        return found[index] if index < len(found) else None


@contextlib.contextmanager
def history(path: Path, completion: Completion) -> Iterator[None]:
    """readline with this history file and completion; the file is written at the end."""
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(_HISTORY_LINES)
    readline.set_completer(completion)
    readline.set_completer_delims(" \t\n()[]<>,;=+-*/'\"")
    # macOS has libedit under the same name, with another syntax for key bindings.
    libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
    try:
        yield
    finally:
        readline.set_completer(None)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(path)


def typed(line: Callable[[str], str] = input) -> Iterator[str]:
    """The user's input, one text of whole statements or one command at a time.

    Ctrl-C discards an unfinished statement; the end of the input ends the iterator.
    """
    lines: list[str] = []
    while True:
        try:
            lines.append(line(_NEXT if lines else _FIRST))
        except EOFError:
            return
        except KeyboardInterrupt:
            click.echo()
            lines = []
            continue
        text = "\n".join(lines)
        command = len(lines) == 1 and re.match(r"\s*(\w+)", text)
        if not text.strip():
            lines = []
        elif ends_statement(text) or (command and command[1].lower() in COMMANDS):
            lines = []
            yield text
