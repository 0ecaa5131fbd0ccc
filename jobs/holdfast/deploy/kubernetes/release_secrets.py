"""The secrets by which the pods of a release authenticate each other.

The chart makes empty Secrets, the same in every rendering, so neither an upgrade nor a GitOps
tool finds a difference in them.  The first driver fills them; executors and query servers mount
their keys and start once the keys exist.  The Secrets are removed with the release.
"""

from __future__ import annotations

import base64
import secrets
import time
from pathlib import Path
from typing import Any

import orjson

from holdfast.deploy.kubernetes.in_pod import from_a_pod, in_a_pod, own_namespace
from holdfast.errors import Refused, Retriable
from holdfast.state.files import private_file

__all__ = ["KEY", "PEER_KEY", "fill", "fill_peers"]

KEY = "secret"
"""The key in the Secret of driver and executors; the chart mounts it."""
PEER_KEY = "peer-token"
"""The key in the Secret of query servers."""

_PATIENCE_S, _PAUSE_S = 60.0, 0.5


def fill(name: str, file: str) -> None:
    """Writes the value of a Secret in this pod's namespace to `file`; fills an empty Secret first.

    Raises:
        Refused: this is not a pod, the Secret is missing, or the account may not read and fill it.
        Retriable: the API did not answer within a minute.
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
        Refused: the Secret is missing, or the account may not read and fill it.
        Retriable: the API did not answer within a minute.
    """
    _held(name, PEER_KEY, "serve.auth.existingSecret")


def _held(name: str, key: str, value: str) -> str:
    """The Secret's value, filled first if empty; `value`: the chart value that names it."""
    path = f"/api/v1/namespaces/{own_namespace()}/secrets/{name}"
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            read = from_a_pod(path)
            if read is not None:
                return _filled(path, key, orjson.loads(read))
        except Refused as error:
            raise _refused(name, key, value, "this account may not read and fill it") from error
        except Retriable:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_S)
        else:
            raise _refused(name, key, value, "there is none")


def _filled(path: str, key: str, read: dict[str, Any]) -> str:
    """The Secret's value after filling it.

    Raises:
        Retriable: another driver fills it meanwhile, so that the change, which names the version
            that was read, is refused as a conflict.
    """
    held = (read.get("data") or {}).get(key)
    if held:
        return base64.b64decode(held).decode()
    made = secrets.token_urlsafe(32)
    version = {"resourceVersion": read["metadata"]["resourceVersion"]}
    data = {key: base64.b64encode(made.encode()).decode()}
    if from_a_pod(path, merge={"metadata": version, "data": data}) is None:
        raise Retriable("The Secret was changed since it was read.", action="read it again")
    return made


def _refused(name: str, key: str, value: str, why: str) -> Refused:
    return Refused(
        f"The Secret {name} cannot be used: {why}.",
        cause="the chart makes it, and a Role for an account that it makes as well; with "
        "serviceAccount.create=false the account is yours",
        action=f"give the account get and patch on that one Secret, or make one with the key {key} "
        f"and name it in {value}",
    )
