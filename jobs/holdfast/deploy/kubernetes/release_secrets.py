"""The secrets by which the pods of a release know each other.

The chart makes empty Secrets, the same in every rendering, so that neither an upgrade nor a
GitOps tool has anything to change in them.  The first driver fills them; executors and query
servers, which mount their keys, begin once those are there.  They go with the release.
"""

from __future__ import annotations

import base64
import secrets
import time
from pathlib import Path
from urllib.error import HTTPError

import orjson

from holdfast.deploy.kubernetes.in_pod import from_a_pod, in_a_pod, own_namespace
from holdfast.errors import Refused
from holdfast.state.files import private_file

__all__ = ["KEY", "PEER_KEY", "fill", "fill_peers"]

KEY = "secret"
"""The key of the Secret of driver and executors; the chart mounts it."""
PEER_KEY = "peer-token"
"""The key of the Secret of query servers."""

_FORBIDDEN, _NOT_FOUND = 403, 404
_PATIENCE_S, _PAUSE_S = 60.0, 0.5


def fill(name: str, file: str) -> None:
    """Writes what a Secret of this pod's namespace holds to `file`; an empty one is filled first.

    Raises:
        Refused: this is no pod, there is no such Secret, or the account may not read and fill it.
        OSError: the API did not answer within a minute.
    """
    if not file or not in_a_pod():
        raise Refused(
            f"--fill-secret {name} is for the driver's pod of the chart holdfast.",
            cause="spark.secret.file is not set, or this is no pod with a ServiceAccount's token",
            action="leave it out",
        )
    held = _held(name, KEY, "spark.existingSecret")
    with private_file(Path(file)) as out:
        out.write(held)


def fill_peers(name: str) -> None:
    """Fills the Secret of query servers if it is empty.

    Raises:
        Refused: there is no such Secret, or the account may not read and fill it.
        OSError: the API did not answer within a minute.
    """
    _held(name, PEER_KEY, "serve.auth.existingSecret")


def _held(name: str, key: str, value: str) -> str:
    """What a Secret holds, once it holds something; `value`: of the chart, that names another."""
    path = f"/api/v1/namespaces/{own_namespace()}/secrets/{name}"
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return _filled(path, key)
        except HTTPError as error:
            if error.code in (_FORBIDDEN, _NOT_FOUND):
                raise _refused(name, key, value, error) from error
            failed: OSError = error
        except OSError as error:
            failed = error
        if time.monotonic() >= deadline:
            raise failed
        time.sleep(_PAUSE_S)


def _filled(path: str, key: str) -> str:
    """What the Secret holds, once it holds something.  Another driver may fill it meanwhile: the
    change is of the version that was read, and refused as a conflict if there is another by now.
    """
    read = orjson.loads(from_a_pod(path))
    held = (read.get("data") or {}).get(key)
    if held:
        return base64.b64decode(held).decode()
    made = secrets.token_urlsafe(32)
    version = {"resourceVersion": read["metadata"]["resourceVersion"]}
    data = {key: base64.b64encode(made.encode()).decode()}
    from_a_pod(path, merge={"metadata": version, "data": data})
    return made


def _refused(name: str, key: str, value: str, error: HTTPError) -> Refused:
    why = "there is none" if error.code == _NOT_FOUND else "this account may not read and fill it"
    return Refused(
        f"The Secret {name} cannot be used: {why} (HTTP status {error.code}).",
        cause="the chart makes it, and a Role for an account that it makes as well; with "
        "serviceAccount.create=false the account is yours",
        action=f"give the account get and patch on that one Secret, or make one with the key {key} "
        f"and name it in {value}",
    )
