"""Gives the judge access to the stores of a job on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.config.settings import Settings
from holdfast.local.processes import is_running
from holdfast.state.digest import store_digests
from holdfast.types.status import JobStatus, status_path
from holdfast.types.stores import JobStores, rows_of_status, stores_of_job

__all__ = ["local_stores"]


def local_stores(
    settings: Settings,
) -> Callable[[], JobStores] | None:
    """A reader of the stores by (query id, state partition); None if the job does not run here.

    Stores of a stopped job may lag, which is correct.  With the memory and the remote backend there
    are none on disk, so the driver's row counts are used, without digests.
    """
    status = _running(settings)
    if status is None:
        return None
    root = Path(settings.state.dir or Path(settings.home, "state"))
    application_id = settings.application_id
    on_disk = settings.state.on_volumes

    def read() -> JobStores:
        if on_disk:
            return stores_of_job(store_digests(root, application_id), application_id)
        now = _running(settings)
        return stores_of_job(rows_of_status(now) if now is not None else (), application_id)

    return read


def _running(settings: Settings) -> JobStatus | None:
    status = JobStatus.read(status_path(settings.home, settings.application_id))
    return status if status is not None and is_running(status) else None
