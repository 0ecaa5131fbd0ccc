"""Kafka Streams' jars and the program that uses them: fetched by PySpark's Ivy, built by javac."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from holdfast.config.versions import KAFKA_VERSION
from holdfast.errors import KafkaUnavailable, Refused
from holdfast.local.jars import REPOSITORY_VARIABLE, _ivy_jar, cache_folder
from holdfast.local.java import find_java
from holdfast.local.trust import trust_options

__all__ = ["SOURCE", "build", "streams_jars"]

SOURCE = Path(__file__).parent / "java" / "TableBench.java"
_DONE = ".completed"
_SLF4J = "1.7.36"  # what Kafka's clients log to; nothing is logged
_IVY = f"""<ivy-module version="2.0">
  <info organisation="holdfast" module="bench"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka-streams" rev="{KAFKA_VERSION}"
                conf="default->default"/>
    <dependency org="org.slf4j" name="slf4j-nop" rev="{_SLF4J}" conf="default->default"/>
  </dependencies>
</ivy-module>
"""
_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"{root}/></resolvers>
</ivysettings>
"""


def streams_jars() -> Path:
    """The folder of the jars, beside those of the local broker; fetched (96 MB) the first time.

    Raises:
        KafkaUnavailable: Maven Central cannot be reached.
    """
    folder = cache_folder(os.environ).with_name(f"kafka-streams-{KAFKA_VERSION}")
    if (folder / _DONE).is_file():
        return folder
    work = folder.with_suffix(".new")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    _fetch(work)
    (work / "jars" / _DONE).touch()
    shutil.rmtree(folder, ignore_errors=True)
    (work / "jars").rename(folder)
    shutil.rmtree(work)
    return folder


def _fetch(work: Path) -> None:
    root = os.environ.get(REPOSITORY_VARIABLE)
    chosen = f' root="{root}"' if root else ""
    (work / "ivy.xml").write_text(_IVY, encoding="utf-8")
    (work / "settings.xml").write_text(_SETTINGS.format(root=chosen), encoding="utf-8")
    command = [find_java(), *trust_options(os.environ, work)]
    command += ["-cp", str(_ivy_jar()), "org.apache.ivy.Main"]
    command += ["-settings", str(work / "settings.xml"), "-ivy", str(work / "ivy.xml")]
    command += ["-cache", str(work / "ivy"), "-types", "jar", "bundle"]
    command += ["-retrieve", str(work / "jars" / "[artifact]-[revision].[ext]")]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    if ran.returncode or not any((work / "jars").glob("kafka-streams-*.jar")):
        raise KafkaUnavailable(
            f"Kafka Streams {KAFKA_VERSION} could not be fetched (exit {ran.returncode}): "
            f"{ran.stdout[-500:]}",
            action="connect once, the jars are then kept; or leave the peer kafka-streams out.",
        )


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
