"""Kafka's jars: resolved once from Maven Central by the Ivy inside PySpark, kept in a cache.

The cache is outside the checkout, so that clones share it.  A folder with a completion marker is
whole; a folder without one is an unfinished download and is downloaded again.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from holdfast.config.jar_sums import jar_sums
from holdfast.config.versions import KAFKA_VERSION, LOG4J_VERSION, SCALA_VERSION
from holdfast.errors import KafkaUnavailable, Refused
from holdfast.local.java import find_java
from holdfast.local.trust import trust_options

__all__ = ["JARS_VARIABLE", "REPOSITORY_VARIABLE", "cache_folder", "kafka_jars"]

JARS_VARIABLE = "HOLDFAST_LOCAL_KAFKA_JARS"
REPOSITORY_VARIABLE = "HOLDFAST_LOCAL_MAVEN_REPOSITORY"

_MARKER = ".completed"
_BROKER = f"kafka_{SCALA_VERSION}-*.jar"  # the jar with the broker's main class
_DOWNLOADED = "[SUCCESSFUL ]"  # Ivy's line for each finished download
_IVY_XML = f"""<ivy-module version="2.0">
  <info organisation="holdfast" module="local-kafka"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_{SCALA_VERSION}" rev="{KAFKA_VERSION}"
                conf="default->default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="{LOG4J_VERSION}"
                conf="default->default"/>
  </dependencies>
</ivy-module>
"""
_SETTINGS_XML = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"{root}/></resolvers>
</ivysettings>
"""


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where the jars of this Kafka version are kept: below XDG_CACHE_HOME or ~/.cache."""
    base = environment.get("XDG_CACHE_HOME")
    root = Path(base) if base else Path.home() / ".cache"
    return root / "holdfast" / f"kafka-{KAFKA_VERSION}"


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
    folder = cache_folder(env)
    if (folder / _MARKER).is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix(".lock"), report):
        if not (folder / _MARKER).is_file():
            _download(folder, report, env)
    return folder


def _given(folder: Path) -> Path:
    if not any(folder.glob(_BROKER)):
        raise Refused(
            f"{JARS_VARIABLE} is {folder}, which holds no {_BROKER}.",
            action=f"point it at the libs folder of a Kafka {KAFKA_VERSION} distribution.",
        )
    return folder


@contextmanager
def _locked(path: Path, report: Callable[[str], None]) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another process that is downloading Kafka")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(folder: Path, report: Callable[[str], None], env: Mapping[str, str]) -> None:
    """Resolve into a temporary folder beside the final one, then rename it into place."""
    java = find_java(env)
    report(f"downloading Kafka {KAFKA_VERSION} (42 MB, once)")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="download-") as name:
        work = Path(name)
        root = env.get(REPOSITORY_VARIABLE)
        chosen = f' root="{root}"' if root else ""
        (work / "ivy.xml").write_text(_IVY_XML, encoding="utf-8")
        settings = _SETTINGS_XML.format(root=chosen)
        (work / "settings.xml").write_text(settings, encoding="utf-8")
        _run_ivy([java, *trust_options(env, work)], work, report)
        jars = work / "jars"
        _check_sums(jars)
        (jars / _MARKER).write_text("\n".join(sorted(p.name for p in jars.iterdir())) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        jars.rename(folder)


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


def _run_ivy(java: list[str], work: Path, report: Callable[[str], None]) -> None:
    command = [*java, "-cp", str(_ivy_jar()), "org.apache.ivy.Main"]
    command += ["-settings", str(work / "settings.xml"), "-ivy", str(work / "ivy.xml")]
    command += ["-cache", str(work / "ivy"), "-types", "jar", "bundle"]
    command += ["-retrieve", str(work / "jars" / "[artifact]-[revision].[ext]")]
    said: list[str] = []
    count = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as ivy:
        assert ivy.stdout is not None
        for line in ivy.stdout:
            said.append(line.rstrip())
            if _DOWNLOADED in line:
                count += 1
                if count % 10 == 0:
                    report(f"downloading Kafka {KAFKA_VERSION}: {count} files")
    if ivy.returncode != 0 or not any((work / "jars").glob(_BROKER)):
        raise _unreachable(said)


def _unreachable(said: list[str]) -> KafkaUnavailable:
    telling = [line.strip() for line in said if "WARN" in line or "ERROR" in line.upper()]
    shown = "\n".join(f"    {line}" for line in (telling or said)[:6])
    return KafkaUnavailable(
        f"Kafka {KAFKA_VERSION} could not be downloaded from Maven Central. Ivy said:\n{shown}",
        cause="this machine is offline, or a proxy or mirror stands between.",
        action=(
            "connect once, the jars are then kept; or set JAVA_TOOL_OPTIONS to your proxy "
            "(-Dhttps.proxyHost=… -Dhttps.proxyPort=…), "
            f"{REPOSITORY_VARIABLE} to the address of a Maven mirror, or {JARS_VARIABLE} to the "
            "libs folder of a Kafka distribution that is on this machine. "
            "A Kafka that runs already serves as well: set bootstrap.servers."
        ),
    )


def _ivy_jar() -> Path:
    """PySpark's Ivy jar; found without importing PySpark."""
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted(Path(place, "jars").glob("ivy-*.jar")):
            return jar
    raise Refused(
        "PySpark's jars/ivy-*.jar was not found.",
        cause="PySpark is not installed, or not the one from the lock file.",
        action="run `make setup`.",
    )
