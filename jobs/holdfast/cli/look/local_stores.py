"""Gives the judge access to the stores of a job on this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError
from holdfast.local.processes import is_running
from holdfast.state.digest import remote_digests, store_digests
from holdfast.types.status import JobStatus, status_path
from holdfast.types.stores import JobStores, StoreDigest, rows_of_status, stores_of_job

__all__ = ["local_stores"]

_LOG = logging.getLogger(__name__)


def local_stores(
    settings: Settings,
) -> Callable[[], JobStores] | None:
    """A reader of the stores by (query id, state partition); None if the job does not run here.

    Stores of a stopped job may lag, which is correct.  With the memory backend, and where the
    database of a remote one cannot be read, the driver's row counts are used, without digests.
    """
    status = _running(settings)
    if status is None:
        return None

    def read() -> JobStores:
        found = _digests(settings)
        if found is None:
            now = _running(settings)
            found = rows_of_status(now) if now is not None else []
        return stores_of_job(found, settings.application_id)

    return read


def _digests(settings: Settings) -> list[StoreDigest] | None:
    """Digests of all stores; None: there are none, or none can be read."""
    state = settings.state
    if state.on_volumes:
        root = Path(state.dir or Path(settings.home, "state"))
        return store_digests(root, settings.application_id)
    if state.backend != "remote":
        return None
    try:
        return remote_digests(state.remote, settings.application_id)
    except HoldfastError as error:
        _LOG.warning("The rows of the stores are not compared: %s", error)
        return None


def _running(settings: Settings) -> JobStatus | None:
    status = JobStatus.read(status_path(settings.home, settings.application_id))
    return status if status is not None and is_running(status) else None
