"""The deployments of a home and their drivers' logs, for the console of its query servers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.deploy.local.target import LocalDeployment, all_deployments
from holdfast.errors import Refused

__all__ = ["DeploymentsOfHome", "end_of"]


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
        start = max(0, size - bytes_max)
        file.seek(max(0, start - 1))
        data = file.read(bytes_max + 1)
    if start:  # the byte before tells whether a line begins here
        data = data[data.find(b"\n") + 1 :]
    return data.decode(errors="replace")
