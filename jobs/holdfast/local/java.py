"""Finds and checks the Java that runs the local Kafka."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping

from holdfast.config.versions import JAVA_VERSION_MIN
from holdfast.errors import Refused

__all__ = ["find_java"]

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_ACTION = (
    f"install a Java runtime {JAVA_VERSION_MIN} or later (Debian, Ubuntu: apt install "
    f"openjdk-{JAVA_VERSION_MIN}-jre-headless), or set JAVA_HOME to one."
)


def find_java(environment: Mapping[str, str] | None = None) -> str:
    """The path of `java`: JAVA_HOME's if it is set, else the first on the PATH.

    Raises:
        Refused: there is no Java, it does not run, or it is too old.
    """
    env = os.environ if environment is None else environment
    home = env.get("JAVA_HOME")
    wanted = os.path.join(home, "bin", "java") if home else "java"  # noqa: PTH118  # for which()
    java = shutil.which(wanted, path=env.get("PATH"))
    if java is None:
        cause = "JAVA_HOME points elsewhere." if home else "no Java is on the PATH."
        raise Refused(f"Java was not found ({wanted}).", cause=cause, action=_ACTION)
    version = _version(java)
    if version < JAVA_VERSION_MIN:
        raise Refused(
            f"{java} is Java {version}; Kafka and Spark need {JAVA_VERSION_MIN} or later.",
            action=_ACTION,
        )
    return java


def _version(java: str) -> int:
    try:
        ran = subprocess.run(
            [java, "-version"], check=False, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"{java} does not run ({error}).", action=_ACTION) from error
    match = _VERSION.search(ran.stderr + ran.stdout)
    if match is None:
        raise Refused(f"{java} -version did not name a version.", action=_ACTION)
    return int(match[1])
