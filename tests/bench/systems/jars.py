"""Kafka Streams' jars and the program that uses them: fetched by PySpark's Ivy, built by javac."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from holdfast.config.versions import KAFKA_VERSION
from holdfast.errors import Refused
from holdfast.local.ivy import Program, downloaded_jars
from holdfast.local.java import find_java

__all__ = ["SOURCE", "build", "streams_jars"]

SOURCE = Path(__file__).parent / "java" / "TableBench.java"
_SLF4J = "1.7.36"  # what Kafka's clients log to; nothing is logged
_STREAMS = Program(
    name="Kafka Streams",
    version=KAFKA_VERSION,
    coordinates=(
        f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}",
        f"org.slf4j:slf4j-nop:{_SLF4J}",
    ),
    main_jar="kafka-streams-*.jar",
    size_mb=96,
    check=lambda _: None,  # nothing but a benchmark runs them
)


def streams_jars() -> Path:
    """The folder of the jars, beside those of the local broker; downloaded the first time.

    Raises:
        Retriable: Maven Central cannot be reached.
    """
    return downloaded_jars(_STREAMS, print, os.environ)


def build(classes: Path, jars: Path) -> None:
    """Compiles the program; nothing to do when its source is older than the classes.

    Raises:
        Refused: there is no compiler, or it refuses the source.
    """
    stamp = classes / "TableBench.class"
    if stamp.is_file() and stamp.stat().st_mtime > SOURCE.stat().st_mtime:
        return
    java = Path(find_java())
    javac = shutil.which(str(java.with_name("javac"))) or shutil.which("javac")
    if javac is None:
        raise Refused(
            f"{java} has no compiler beside it (javac).",
            cause="it is a Java runtime without the development kit.",
            action="install a JDK 17 or later, or leave the peer kafka-streams out (--peer).",
        )
    classes.mkdir(parents=True, exist_ok=True)
    command = [javac, "-cp", f"{jars}/*", "-d", str(classes), str(SOURCE)]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    if ran.returncode:
        raise Refused(f"javac refused {SOURCE.name}: {ran.stderr[-800:]}", action="mend it.")
