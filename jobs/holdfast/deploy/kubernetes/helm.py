"""Helm, called as a user would call it."""

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

__all__ = ["find_chart", "helm", "helm_json", "helm_watched"]

_IN_THE_IMAGE = Path("/opt/holdfast/chart")
_LOOK_EVERY_S = 2.0
_MAJOR = "v3."


def find_chart(chart: Path | None) -> Path:
    """The chart to deploy: the one given, the image's, or the checkout's.

    Raises:
        InvalidConfig: there is none.
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
    """What helm prints.

    Raises:
        InvalidConfig: there is no helm, or it is not Helm 3.
        HoldfastError: it failed.
    """
    ran = subprocess.run([_binary(), *arguments], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise _failed(arguments, ran.returncode, ran.stderr or ran.stdout)
    return ran.stdout


def helm_json(arguments: Sequence[str]) -> Any:
    """What helm prints with `-o json`; None when there is no such release.

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
    """The same as `helm`, for what takes long; `look` is called every other second meanwhile."""
    process = subprocess.Popen(
        [_binary(), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        close_fds=False,  # --values <(…) is an open file of the shell's
    )
    while True:
        try:
            output, _ = process.communicate(timeout=_LOOK_EVERY_S)
        except subprocess.TimeoutExpired:
            look()
            continue
        except BaseException:
            # Helm rolls an atomic release back when it is interrupted; it is given the time.
            process.terminate()
            process.wait()
            raise
        if process.returncode != 0:
            raise _failed(arguments, process.returncode, output)
        return output


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
            cause="Helm 3 is not installed here",
            action="install it, or run this command in the Holdfast image, which has it",
        )
    return _checked(found)


@cache
def _checked(path: str) -> str:
    """The path, once it has answered as Helm 3."""
    command = [path, "version", "--short"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    said = (ran.stdout + ran.stderr).strip()
    if ran.returncode != 0 or not said.startswith(_MAJOR):
        raise InvalidConfig(
            f"{path} is not Helm 3: `helm version` printed {said!r}.",
            action="put Helm 3 on the PATH before it",
        )
    return path
