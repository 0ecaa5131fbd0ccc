"""Kafka's jars: those of a folder that the environment names, else downloaded and kept."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.config.jar_sums import jar_sums
from holdfast.config.versions import KAFKA_VERSION, LOG4J_VERSION, SCALA_VERSION
from holdfast.errors import KafkaUnavailable, Refused, Retriable
from holdfast.local.ivy import REPOSITORY_VARIABLE, Program, downloaded_jars

__all__ = ["JARS_VARIABLE", "REPOSITORY_VARIABLE", "cache_folder", "kafka_jars"]

JARS_VARIABLE = "HOLDFAST_LOCAL_KAFKA_JARS"

_BROKER = f"kafka_{SCALA_VERSION}-*.jar"  # the jar with the broker's main class
_WAYS_OUT = (
    "connect once, the jars are then kept; or set JAVA_TOOL_OPTIONS to your proxy "
    "(-Dhttps.proxyHost=… -Dhttps.proxyPort=…), "
    f"{REPOSITORY_VARIABLE} to the address of a Maven mirror, or {JARS_VARIABLE} to the "
    "libs folder of a Kafka distribution that is on this machine. "
    "A Kafka that runs already serves as well: set bootstrap.servers."
)


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where the jars of this Kafka version are kept: below XDG_CACHE_HOME or ~/.cache."""
    return _kafka().cache_folder(environment)


def kafka_jars(report: Callable[[str], None], environment: Mapping[str, str] | None = None) -> Path:
    """The folder of Kafka's jars; downloads them (42 MB) the first time.

    Two processes may call it at the same time: the second waits for the first.

    Args:
        report: receives short lines about the download.

    Raises:
        KafkaUnavailable: Maven Central cannot be reached.
        Refused: the downloaded jars are not the pinned ones, the environment's folder holds no
            Kafka, or Java is missing.
    """
    env = os.environ if environment is None else environment
    given = env.get(JARS_VARIABLE)
    if given:
        return _given(Path(given))
    try:
        return downloaded_jars(_kafka(), report, env)
    except Retriable as error:
        raise KafkaUnavailable(error.fact, cause=error.cause, action=_WAYS_OUT) from error


def _kafka() -> Program:
    return Program(
        name="Kafka",
        version=KAFKA_VERSION,
        coordinates=(
            f"org.apache.kafka:kafka_{SCALA_VERSION}:{KAFKA_VERSION}",
            f"org.apache.logging.log4j:log4j-slf4j-impl:{LOG4J_VERSION}",
        ),
        main_jar=_BROKER,
        size_mb=42,
        check=_check_sums,
    )


def _given(folder: Path) -> Path:
    if not any(folder.glob(_BROKER)):
        raise Refused(
            f"{JARS_VARIABLE} is {folder}, which holds no {_BROKER}.",
            action=f"point it at the libs folder of a Kafka {KAFKA_VERSION} distribution.",
        )
    return folder


def _check_sums(jars: Path) -> None:
    """Raises `Refused` unless these are exactly the pinned jars."""
    known = jar_sums()
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars.iterdir()}
    wrong = sorted(name for name in found | known if found.get(name) != known.get(name))
    if wrong:
        shown = "\n".join(f"    {found.get(name, 'missing'):64}  {name}" for name in wrong[:6])
        raise Refused(
            f"{len(wrong)} of the jars of Kafka {KAFKA_VERSION} are not the pinned ones:\n{shown}",
            cause="a mirror or a proxy gave other files, or versions.py was changed without "
            "jar_sums.py",
            action="do not run them; find out who changed them, or download from Maven Central",
        )
