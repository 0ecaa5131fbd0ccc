"""`python -m holdfast.cli.in_pod.create_missing FILE`: creates what a platform lacks, once.

The chart holdfast-platform runs it before an install or upgrade, since a rendering cannot hold
it: passwords and certificates would differ from one rendering to the next, and a claim would hold
up an install that waits.  What exists is kept as it is.  FILE is YAML with the lists
`passwords` (`object`: a Secret without data; `keys`) and `claims` (PersistentVolumeClaims), and
`certificates` (`authority`, `days`, and `of`: `object`, `commonName`, `hosts`).
"""

from __future__ import annotations

import base64
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import yaml

from holdfast.deploy.kubernetes.certificates import Wanted, issue
from holdfast.deploy.kubernetes.in_pod import from_a_pod
from holdfast.errors import HoldfastError, Refused, Retriable

__all__ = ["create_missing", "main"]

_Ask = Callable[..., bytes | None]
_Object = Mapping[str, Any]

_COLLECTIONS = {"PersistentVolumeClaim": "persistentvolumeclaims", "Secret": "secrets"}
_RANDOM_BYTES = 32  # what Fernet asks of a key


def main(file: Path) -> int:
    """Creates what is missing and prints a line per object; returns the exit status."""
    try:
        for line in create_missing(yaml.safe_load(file.read_bytes()), from_a_pod):
            print(line)  # noqa: T201 - the log of the chart's Job
    except HoldfastError as error:
        print(error, file=sys.stderr)  # noqa: T201 - helm prints the log
        return 1
    return 0


def create_missing(wanted: Mapping[str, Any], ask: _Ask) -> Iterator[str]:
    """Creates objects and keys that do not exist.

    Args:
        wanted: see the module.
        ask: asks the Kubernetes API, as `from_a_pod` does.

    Yields:
        What was done with each object.

    Raises:
        Refused: the account may not read or create an object.
        Retriable: the API did not answer, or another one changed an object meanwhile.
    """
    for one in wanted.get("passwords") or ():
        yield _fill(ask, one["object"], one["keys"])
    if certificates := wanted.get("certificates"):
        yield from _certify(ask, certificates)
    for claim in wanted.get("claims") or ():
        if _read(ask, claim) is None:
            _write(ask, claim, None)
            yield f"{_called(claim)} was created."
        else:
            yield f"{_called(claim)} is kept."


def _fill(ask: _Ask, secret: _Object, keys: list[str]) -> str:
    found = _read(ask, secret)
    held = (found or {}).get("data") or {}
    missing = [key for key in keys if not held.get(key)]
    if not missing:
        return f"{_called(secret)} is kept."
    texts = (base64.urlsafe_b64encode(secrets.token_bytes(_RANDOM_BYTES)) for _ in missing)
    _write(ask, {**secret, "data": _encoded(dict(zip(missing, texts, strict=True)))}, found)
    return f"{_called(secret)} got {', '.join(missing)}."


def _certify(ask: _Ask, certificates: _Object) -> Iterator[str]:
    """Issues all of them anew when one is missing: the authority's key no longer exists."""
    objects = [one["object"] for one in certificates["of"]]
    found = [_read(ask, each) for each in objects]
    if all(each is not None and each.get("data") for each in found):
        yield from (f"{_called(each)} is kept." for each in objects)
        return
    wanted = (Wanted(one["commonName"], tuple(one["hosts"])) for one in certificates["of"])
    issued = issue(certificates["authority"], certificates["days"], wanted)
    for secret, before, data in zip(objects, found, issued, strict=True):
        _write(ask, {**secret, "data": _encoded(data)}, before)
        yield f"{_called(secret)} got a certificate for {certificates['days']} days."


def _read(ask: _Ask, wanted: _Object) -> dict[str, Any] | None:
    found = _may(wanted, lambda: ask(f"{_collection(wanted)}/{wanted['metadata']['name']}"))
    return None if found is None else orjson.loads(found)


def _write(ask: _Ask, wanted: _Object, before: _Object | None) -> None:
    """Creates an object, or adds the data to the one that was read."""
    path = _collection(wanted)
    if before is None:
        done = _may(wanted, lambda: ask(path, create=wanted))
    else:
        version = {"resourceVersion": before["metadata"]["resourceVersion"]}
        change = {"metadata": version, "data": wanted["data"]}
        done = _may(wanted, lambda: ask(f"{path}/{wanted['metadata']['name']}", merge=change))
    if done is None:
        raise Retriable(
            f"{_called(wanted)} was created or changed by another one since it was read.",
            action="run it again: it keeps what it finds",
        )


def _may(wanted: _Object, ask: Callable[[], bytes | None]) -> bytes | None:
    try:
        return ask()
    except Refused as error:
        raise Refused(
            f"This account may not read, create or change {_called(wanted)}.",
            cause="the Roles of the chart's init Job are not there, or an admission policy refuses",
            action="see `kubectl auth can-i create secrets`, or create the object "
            "yourself and set init.enabled=false",
        ) from error


def _collection(wanted: _Object) -> str:
    where = wanted["metadata"]["namespace"]
    return f"/api/v1/namespaces/{where}/{_COLLECTIONS[wanted['kind']]}"


def _called(wanted: _Object) -> str:
    metadata = wanted["metadata"]
    return f"The {wanted['kind']} {metadata['name']} in {metadata['namespace']}"


def _encoded(data: Mapping[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in data.items()}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
