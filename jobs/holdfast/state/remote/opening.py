"""Opens remote stores by the settings; the only module that knows the databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Protocol

from holdfast.config.settings import RemoteSettings
from holdfast.errors import InvalidConfig
from holdfast.state.remote.store import RemoteSnapshot, RemoteStore, WarmedStore
from holdfast.state.remote.table import RemoteTable

__all__ = ["RemoteStores", "open_remote", "read_remote"]


def open_remote(settings: RemoteSettings, name: str, *, warms: bool = False) -> RemoteStore:
    """Takes over the store of that name, creating an empty one if there is none.

    Args:
        name: see `table_store.store_name`.
        warms: only to fill it before its first owner opens it.

    Raises:
        Fenced: it shall be warmed, and has an owner.
        StoreUnavailable: the database does not answer.
        InvalidConfig: the client library, or a setting, is missing.
    """
    table = _database(settings).table(settings, name)
    try:
        return (WarmedStore if warms else RemoteStore)(table, f"{name} at {settings.uri}")
    except BaseException:
        table.close()
        raise


@contextmanager
def read_remote(settings: RemoteSettings, name: str) -> Iterator[RemoteSnapshot]:
    """A snapshot of the store of that name, which others may own.

    Raises:
        StoreCorrupted: there is no readable store; later, it has changed meanwhile.
        StoreUnavailable, InvalidConfig: see `open_remote`.
    """
    with closing(_database(settings).table(settings, name)) as table:
        yield RemoteSnapshot(table, f"{name} at {settings.uri}")


class RemoteStores:
    """The stores of a job in the database: what `Volume` is for stores on a volume."""

    def __init__(self, settings: RemoteSettings, application_id: str) -> None:
        self._settings = settings
        self._application_id = application_id

    def stores(self) -> list[tuple[str, str, int]]:
        """(application id, state name, state partition) of every store of the job, sorted."""
        return _database(self._settings).stores_of(self._settings, self._application_id)

    def delete_store(self, application_id: str, state_name: str, state_partition: int) -> None:
        """Removes a store; one that is open is restored."""
        name = f"{application_id}/{state_name}/{state_partition}"
        _database(self._settings).delete_store(self._settings, name)

    def delete_all(self) -> int:
        """Removes every store of the job; returns how many there were."""
        found = self.stores()
        for store in found:
            self.delete_store(*store)
        return len(found)


class _Database(Protocol):
    """The contract of a database's module."""

    def table(self, settings: RemoteSettings, name: str) -> RemoteTable: ...

    def stores_of(
        self, settings: RemoteSettings, application_id: str
    ) -> list[tuple[str, str, int]]: ...

    def delete_store(self, settings: RemoteSettings, name: str) -> None: ...


def _database(settings: RemoteSettings) -> _Database:
    """The module that speaks to it: a job with another backend does without its library."""
    if not settings.uri:
        raise InvalidConfig(
            "The remote backend needs a database.",
            action="set state.remote.uri, or use the rocksdb backend.",
        )
    try:
        if settings.uri.startswith("dynamodb:"):
            from holdfast.state.remote import dynamodb

            return dynamodb
        from holdfast.state.remote import redis
    except ModuleNotFoundError as error:
        raise InvalidConfig(
            f"The remote backend needs the Python package {error.name}, which is not here.",
            action="install holdfast[remote] for driver and executors.",
        ) from error
    return redis
