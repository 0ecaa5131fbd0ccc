"""The deployments of a home and their drivers' logs, for the console of its query servers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.deploy.local.target import LocalDeployment, all_deployments
from holdfast.errors import Refused

__all__ = ["DeploymentsOfHome", "end_of", "last_lines"]


class DeploymentsOfHome:
    """Reads the folders of local deployments; changes nothing."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def all(self) -> Sequence[Mapping[str, Any]]:
        """Each as JSON values, by name."""
        return [found.as_json() for found in all_deployments(self._home)]

    def log(self, name: str, bytes_max: int) -> str:
        """The last lines of a driver's log, as many as fit.

        Raises:
            Refused: the name is none, or the log cannot be read.
        """
        path = LocalDeployment(self._home, name).log
        try:
            return end_of(path, bytes_max)
        except OSError as error:
            raise Refused(f"{path.name} of {name} cannot be read: {error.strerror}.") from error


def end_of(path: Path, bytes_max: int) -> str:
    """The end of a text file, from the beginning of a line on."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - bytes_max - 1))  # the byte before tells whether a line begins there
        return last_lines(file.read(bytes_max + 1), bytes_max)


def last_lines(log: bytes, bytes_max: int) -> str:
    """The last lines of a log, as many as fit; of a last line that does not fit its end."""
    start = max(0, len(log) - bytes_max)
    if start and log[start - 1 : start] != b"\n":
        begins = log.find(b"\n", start) + 1
        start = begins if begins and begins < len(log) else start
    return log[start:].decode(errors="replace")
