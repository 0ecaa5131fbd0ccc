"""Where the savepoints of a job are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import InvalidConfig

if TYPE_CHECKING:
    from holdfast.config.settings import Settings
    from holdfast.state.snapshots.savepoints import SavepointPlace

__all__ = ["place_of"]


def place_of(job: str, settings: Settings) -> SavepointPlace:
    """The place of a job's savepoints: `snapshot.uri`, or else that of its local deployment.

    Raises:
        InvalidConfig: neither is known.
    """
    from holdfast.deploy.local.revisions import snapshot_uri_of
    from holdfast.state.snapshots.savepoints import SavepointPlace

    uri = settings.snapshots.uri or snapshot_uri_of(Path(settings.home), job)
    if not uri:
        raise InvalidConfig(
            f"Nothing says where the savepoints of {job} are.",
            cause=f"snapshot.uri is not set, and {settings.home} has no deployment {job} with one.",
            action="give --set snapshot.uri=URI, the one of the job.",
        )
    return SavepointPlace(uri, job)
