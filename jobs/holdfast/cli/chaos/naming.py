"""Finds a job by its own name, or by the name of a table or stream that it writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError, Refused

if TYPE_CHECKING:
    from holdfast.cli.chaos.options import JobOptions
    from holdfast.cli.statements.options import Job

__all__ = ["named_job"]


def named_job(
    options: JobOptions, home: Path, deployed_job: Callable[[JobOptions], Job]
) -> JobOptions:
    """The options with the name of the job that was found; unchanged if none was.

    Raises:
        Refused: several jobs write a table of that name.
    """
    if options.sql is not None:
        return options
    jobs = _jobs(options, home)
    if options.name in jobs:
        return options
    makers = [job for job in jobs if _makes(options.name, replace(options, name=job), deployed_job)]
    if len(makers) > 1:
        raise Refused(
            f"{len(makers)} jobs write {options.name}: {', '.join(makers)}.",
            action="give the name of the one to break",
        )
    return replace(options, name=makers[0]) if makers else options


def _jobs(options: JobOptions, home: Path) -> list[str]:
    if options.target == "kubernetes":
        from holdfast.chaos.targets.kubernetes.places import releases
        from holdfast.deploy.kubernetes.client import KubeClient

        return releases(KubeClient(), options.namespace)
    from holdfast.deploy.local.revisions import Revisions

    return sorted(f.name for f in (home / "deploy").glob("*") if Revisions(f).current)


def _makes(table: str, options: JobOptions, deployed_job: Callable[[JobOptions], Job]) -> bool:
    """Whether a job writes the table; unquoted names are upper-case.  False for unreadable jobs."""
    try:
        made = {query.sink.name for query in deployed_job(options).topology.queries}
    except HoldfastError:
        return False
    return table.upper() in made or table in made
