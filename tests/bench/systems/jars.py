"""Java's jars and the programs that use them: fetched by PySpark's Ivy, built by javac."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from holdfast.config.versions import KAFKA_VERSION
from holdfast.errors import Refused
from holdfast.local.ivy import Program, downloaded_jars
from holdfast.local.java import find_java

__all__ = ["REGISTRY_SOURCES", "SOURCE", "build", "registry_jars", "streams_jars"]

_FOLDER = Path(__file__).parent / "java"
SOURCE = _FOLDER / "TableBench.java"
_REGISTRY_NAMES = ("TableBench", "RegistrySerdes", "RegistryBench", "RoundTrip")
REGISTRY_SOURCES = tuple(_FOLDER / f"{name}.java" for name in _REGISTRY_NAMES)
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
# The newest serdes whose every POM is on Maven Central; Confluent's own are not there.
_SERDES = "2.6.13.Final"
_REGISTRY = Program(
    name="Apicurio serdes",
    version=f"{_SERDES}-{KAFKA_VERSION}",
    coordinates=(
        f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}",
        *(
            f"io.apicurio:apicurio-registry-serdes-{kind}-serde:{_SERDES}"
            for kind in ("avro", "protobuf", "jsonschema")
        ),
        "org.slf4j:slf4j-nop:2.0.13",
    ),
    main_jar="apicurio-registry-serdes-avro-serde-*.jar",
    size_mb=150,
    check=lambda _: None,  # nothing but a benchmark and a test run them
)


def streams_jars() -> Path:
    """The folder of the jars, beside those of the local broker; downloaded the first time.

    Raises:
        Retriable: Maven Central cannot be reached.
    """
    return downloaded_jars(_STREAMS, print, os.environ)


def registry_jars() -> Path:
    """The same with Apicurio's serdes.

    Raises:
        Retriable: Maven Central cannot be reached.
    """
    return downloaded_jars(_REGISTRY, print, os.environ)


def build(classes: Path, jars: Path, *sources: Path) -> None:
    """Compiles programs; nothing to do when their sources are older than the classes.

    Raises:
        Refused: there is no compiler, or it refuses a source.
    """
    stamps = [classes / f"{source.stem}.class" for source in sources]
    if all(
        stamp.is_file() and stamp.stat().st_mtime > source.stat().st_mtime
        for stamp, source in zip(stamps, sources, strict=True)
    ):
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
    command = [javac, "-cp", f"{jars}/*", "-d", str(classes), *map(str, sources)]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    if ran.returncode:
        names = ", ".join(source.name for source in sources)
        raise Refused(f"javac refused {names}: {ran.stderr[-800:]}", action="mend it.")
