"""Opens `snapshot.uri`, and translates the errors of its file system.

The only module that imports `pyarrow.fs`.  Credentials come from the environment, as the file
systems' own clients take them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from holdfast.errors import SnapshotsUnavailable

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

__all__ = ["needs_folders", "opened", "unavailable"]

_ATTEMPTS = 3  # of a request to S3; each takes 3 s if nobody answers
_NOT_PICKLED = ("tls_verify_certificates", "smart_defaults")
_OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})  # their folders are parts of names


@cache
def opened(uri: str) -> tuple[FileSystem, str]:
    """The file system of a URI, and the path in it.

    Raises:
        SnapshotsUnavailable: there is no such place, or its library is missing.
    """
    from pyarrow.fs import FileSystem  # its S3 client takes time and memory to load

    with unavailable(uri):
        system, path = FileSystem.from_uri(uri)
        return _less_patient(system, uri), path.rstrip("/")


def _less_patient(system: FileSystem, uri: str) -> FileSystem:
    """The same file system; S3's tries a request three times only, and writes where it is called.

    By default a request to a server that hangs takes 100 s, for which a restore would wait, and
    uploads are buffered without limit.  A URI cannot say it, so the options are taken from what the
    file system gives to pickle.  Two of a URI are not in it; with one of them nothing is changed.
    """
    if system.type_name != "s3" or any(option in uri for option in _NOT_PICKLED):
        return system
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    _, (options,) = system.__reduce__()
    retries = AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS)
    return S3FileSystem(**{**options, "background_writes": False}, retry_strategy=retries)


def needs_folders(system: FileSystem) -> bool:
    """Whether a file can only be written into a folder that exists."""
    return system.type_name not in _OBJECT_STORES


@contextmanager
def unavailable(what: str) -> Iterator[None]:
    """Raises `SnapshotsUnavailable` for the errors of file systems; `what` names the place."""
    try:
        yield
    except (OSError, ValueError, NotImplementedError) as error:  # Arrow's errors are of these kinds
        raise SnapshotsUnavailable(
            f"The snapshots at {what} cannot be read or written: {_told(error)}.",
            cause="the place does not answer, does not exist, or refuses these credentials.",
            action="look at snapshot.uri and at the credentials in the environment; until then "
            "stores are restored from their changelogs.",
        ) from error


def _told(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
