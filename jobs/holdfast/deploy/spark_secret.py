"""The secret by which the driver and the executors of a release know each other.

The chart makes an empty Secret, the same in every rendering, so that neither an upgrade nor a
GitOps tool has anything to change in it.  The first driver fills it; the executors' pods, which
mount its key, begin once it is there.  It goes with the release.
"""

from __future__ import annotations

import base64
import secrets
import time
from pathlib import Path
from urllib.error import HTTPError

import orjson

from holdfast.deploy.kube_api import from_a_pod, in_a_pod, own_namespace
from holdfast.errors import Refused
from holdfast.state.files import private_file

__all__ = ["KEY", "fill"]

KEY = "secret"
"""The key of the Secret; the chart mounts it."""

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
    path = f"/api/v1/namespaces/{own_namespace()}/secrets/{name}"
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            found = _filled(path)
        except HTTPError as error:
            if error.code in (_FORBIDDEN, _NOT_FOUND):
                raise _refused(name, error) from error
            failed: OSError = error
        except OSError as error:
            failed = error
        else:
            break
        if time.monotonic() >= deadline:
            raise failed
        time.sleep(_PAUSE_S)
    with private_file(Path(file)) as out:
        out.write(found)


def _filled(path: str) -> str:
    """What the Secret holds, once it holds something.  Another driver may fill it meanwhile: the
    change is of the version that was read, and refused as a conflict if there is another by now.
    """
    read = orjson.loads(from_a_pod(path))
    held = (read.get("data") or {}).get(KEY)
    if held:
        return base64.b64decode(held).decode()
    made = secrets.token_urlsafe(32)
    version = {"resourceVersion": read["metadata"]["resourceVersion"]}
    data = {KEY: base64.b64encode(made.encode()).decode()}
    from_a_pod(path, merge={"metadata": version, "data": data})
    return made


def _refused(name: str, error: HTTPError) -> Refused:
    why = "there is none" if error.code == _NOT_FOUND else "this account may not read and fill it"
    return Refused(
        f"The Secret {name} cannot be used for Spark: {why} (HTTP status {error.code}).",
        cause="the chart makes it, and a Role for an account that it makes as well; with "
        "serviceAccount.create=false the account is yours",
        action=f"give the account get and patch on that one Secret, or make one with the key {KEY} "
        "and name it in spark.existingSecret",
    )
