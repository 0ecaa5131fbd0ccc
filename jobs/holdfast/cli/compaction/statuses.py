"""The jobs' status of their tables, from their endpoints, else from their status files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import orjson

from holdfast.compaction.survey.jobs import JobSeen
from holdfast.deploy.deployment import fetch_status
from holdfast.errors import Refused
from holdfast.types.status import JobState, status_path

__all__ = ["JobStatuses", "status_option"]

_F = TypeVar("_F", bound=Callable[..., object])
_NAME = "{name}"


def status_option(function: _F) -> _F:
    """Adds --status to a command, as `status`."""
    return click.option(
        "--status",
        multiple=True,
        metavar="URL",
        help="URL of a driver's /status, for jobs on other machines; `{name}` stands for every "
        "application id. May be repeated.",
    )(function)


class JobStatuses:
    """Reads jobs' statuses; the `jobs` of `holdfast.compaction.survey.survey.take_survey`.

    Args:
        home: folder with the status files.
        urls: URLs of drivers' /status.
    """

    def __init__(self, home: str | Path, urls: Sequence[str] = ()) -> None:
        self._home = Path(home)
        self._urls = tuple(urls)

    def __call__(self, application_ids: Sequence[str]) -> list[JobSeen]:
        """The statuses of these jobs, as far as they answer.

        Raises:
            Refused: no driver answers at a URL that names a single one.
        """
        told = [self._local(name) for name in application_ids]
        for url in self._urls:
            told += self._asked(url, application_ids)
        return [seen for one in told if one is not None and (seen := JobSeen.of(one)) is not None]

    def _local(self, application_id: str) -> Mapping[str, Any] | None:
        """A running driver's status, with its lag; else the status that the last one wrote.

        A driver that does not answer was killed: it had no time to write that it stopped.
        """
        try:
            found = orjson.loads(status_path(self._home, application_id).read_bytes())
        except (OSError, ValueError):
            return None
        if not isinstance(found, dict) or found.get("state") == JobState.STOPPED:
            return found if isinstance(found, dict) else None
        url = str(found.get("metrics_url", "")).removesuffix("metrics")
        live = fetch_status(f"{url}status") if url else None
        ours = live is not None and live.get("application_id") == application_id
        return live if ours else found | {"state": JobState.STOPPED.value}

    def _asked(self, url: str, application_ids: Sequence[str]) -> list[Mapping[str, Any] | None]:
        if _NAME in url:
            return [fetch_status(url.replace(_NAME, name)) for name in application_ids]
        found = fetch_status(url)
        if found is None:
            raise Refused(
                f"No driver answers at {url}.",
                cause="the job is not running, or has another address.",
                action="correct --status, or omit it: then rows and lag are unknown.",
            )
        return [found]
