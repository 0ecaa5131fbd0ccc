"""Commands as a stranger types them, and a file with all that they print."""

from __future__ import annotations

import re
import time
from pathlib import Path

from tests.support.place import Place

__all__ = ["Transcript", "not_for_people"]

_NOT_FOR_PEOPLE = re.compile(
    r"Traceback \(most recent|^\s+at [\w.$]+\(|^\s+File \".*\", line \d+|Exception\b|py4j"
    r"|^\d\d(?:\d\d)?[/-]\d\d[/-]\d\d .*(?:WARN|ERROR)|^(?:WARN|ERROR|WARNING)\b|log4j|SLF4J"
    r"|[A-Za-z]+Warning:"
)


def not_for_people(text: str) -> list[str]:
    """The lines of a transcript that only a developer of the engine understands."""
    return [line for line in text.splitlines() if _NOT_FOR_PEOPLE.search(line)]


class Transcript:
    """Runs commands and writes them down.

    Args:
        place: where they run.
        path: the file; each command is under `$`, with its seconds.
    """

    def __init__(self, place: Place, path: Path) -> None:
        self._place = place
        self._path = path

    def run(self, command: str, status: int = 0) -> str:
        """Runs a command; returns what it prints."""
        began = time.monotonic()
        self.note(f"$ {command}\n")
        try:
            told = self._place.run(command, status)
        except AssertionError as error:
            self.note(f"{error}\n")
            raise
        self.note(f"{told}# {time.monotonic() - began:.1f} s\n\n")
        return told

    def quietly(self, command: str) -> str:
        """Runs what a script asks again and again; returns what it prints."""
        return self._place.run(command)

    def note(self, text: str) -> None:
        """Adds to the file."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(text)

    def read(self, file: str) -> str:
        """A file that a command has written."""
        return (self._place.folder / file).read_text(encoding="utf-8")

    def text(self) -> str:
        """All of it so far."""
        return self._path.read_text(encoding="utf-8")
