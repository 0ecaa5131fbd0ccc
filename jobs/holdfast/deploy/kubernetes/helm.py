"""Runs Helm as a user would."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import orjson

import holdfast
from holdfast.errors import HoldfastError, InvalidConfig

__all__ = ["EVERY_STATE", "find_chart", "helm", "helm_json", "helm_watched", "rollback_on_failure"]

EVERY_STATE = (
    *("--deployed", "--failed", "--pending"),
    *("--superseded", "--uninstalled", "--uninstalling"),
)
"""Flags of `helm list`; Helm 4 does not know `--all`, which Helm 3 needs."""

_IN_THE_IMAGE = Path("/opt/holdfast/chart")
_LOOK_EVERY_S = 2.0
_HELM_3, _HELM_4 = "v3.", "v4."


def find_chart(chart: Path | None) -> Path:
    """The chart to deploy: the given one, the image's, or the checkout's.

    Raises:
        InvalidConfig: no chart was found.
    """
    checkout = Path(holdfast.__file__).parents[2] / "helm" / "holdfast"
    places = [chart] if chart is not None else [_IN_THE_IMAGE, checkout]
    for place in places:
        if (place / "Chart.yaml").is_file():
            return place
    raise InvalidConfig(
        f"There is no chart in {' or '.join(map(str, places))}.",
        action="give its folder with --chart",
    )


def helm(arguments: Sequence[str]) -> str:
    """Runs helm and returns its output.

    Raises:
        InvalidConfig: helm is missing, or it is neither Helm 3 nor 4.
        HoldfastError: it failed.
    """
    ran = subprocess.run([_binary(), *arguments], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise _failed(arguments, ran.returncode, ran.stderr or ran.stdout)
    return ran.stdout


def helm_json(arguments: Sequence[str]) -> Any:
    """Runs helm with `-o json`; None when there is no such release.

    Raises:
        InvalidConfig, HoldfastError: see `helm`.
    """
    try:
        return orjson.loads(helm([*arguments, "-o", "json"]))
    except HoldfastError as error:
        if "release: not found" in error.fact:
            return None
        raise


def helm_watched(arguments: Sequence[str], look: Callable[[], None]) -> str:
    """Like `helm`, for slow commands; calls `look` every other second meanwhile.

    An error that `look` raises interrupts helm, and is raised once helm has ended.
    """
    process = subprocess.Popen(
        [_binary(), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        close_fds=False,  # --values <(…) is an open file of the shell
    )
    try:
        output = _watched(process, look)
    except BaseException:
        # Helm rolls an interrupted atomic release back, which takes time.
        process.terminate()
        process.communicate()
        raise
    if process.returncode != 0:
        raise _failed(arguments, process.returncode, output)
    return output


def _watched(process: subprocess.Popen[str], look: Callable[[], None]) -> str:
    while True:
        try:
            return process.communicate(timeout=_LOOK_EVERY_S)[0]
        except subprocess.TimeoutExpired:
            look()


def _failed(arguments: Sequence[str], status: int, output: str) -> HoldfastError:
    """The error for a helm command that ended with `status`."""
    cause, action = "", "see above; `helm history` and `helm status` tell what the release is like"
    if "another operation" in output:
        cause = "another command changes the release, or one was killed while it did"
        action = "wait for it; if there is none: `helm rollback` to the last revision that was good"
    return HoldfastError(
        f"`helm {arguments[0]}` ended with status {status}: {output.strip()}",
        cause=cause,
        action=action,
    )


def _binary() -> str:
    found = shutil.which("helm")
    if found is None:
        raise InvalidConfig(
            "There is no helm on the PATH.",
            cause="Helm 3 or 4 is not installed here",
            action="install it, or run this command in the Holdfast image, which has it",
        )
    _version(found)
    return found


def rollback_on_failure() -> str:
    """The flag by which `helm upgrade` restores the revision before; Helm 4 has renamed it.

    Raises:
        InvalidConfig: see `helm`.
    """
    return "--atomic" if _version(_binary()).startswith(_HELM_3) else "--rollback-on-failure"


@cache
def _version(path: str) -> str:
    """The version that a program prints, after checking that it is Helm 3 or 4."""
    command = [path, "version", "--short"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    said = (ran.stdout + ran.stderr).strip()
    if ran.returncode != 0 or not said.startswith((_HELM_3, _HELM_4)):
        raise InvalidConfig(
            f"{path} is neither Helm 3 nor 4: `helm version` printed {said!r}.",
            action="put Helm 3 or 4 on the PATH before it",
        )
    return said
