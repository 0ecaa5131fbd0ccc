"""`python -m holdfast.cli.in_pod.remote_stores WHAT FILE`: a job's stores in its database, as JSON.

Chaos runs it in an executor's pod, which reaches the database and has the password.  FILE is the
job's YAML file of properties.  WHAT is

    list       application id, state name and state partition of each store
    remove     removes all of them; how many there were
    digests    the digest of each, see `StoreDigest`
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

import orjson

from holdfast.cli.statements.options import load_settings
from holdfast.state.digest import remote_digests
from holdfast.state.remote.opening import RemoteStores

__all__ = ["main"]


def main(what: str, properties: Path) -> None:
    """Does it, and prints the answer.

    Raises:
        StoreUnavailable, InvalidConfig: the database cannot be used.
    """
    settings = load_settings(properties, (), None)
    remote, name = settings.state.remote, settings.application_id
    stores = RemoteStores(remote, name)
    answers: Mapping[str, Callable[[], object]] = {
        "list": stores.stores,
        "remove": stores.delete_all,
        "digests": lambda: [asdict(digest) for digest in remote_digests(remote, name)],
    }
    print(orjson.dumps(answers[what]()).decode())  # noqa: T201 - chaos reads it


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
