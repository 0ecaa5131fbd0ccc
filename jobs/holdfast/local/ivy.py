"""Programs' jars: resolved once from Maven Central by the Ivy inside PySpark, kept in a cache.

The cache is outside the checkout, so that clones share it.  A folder with a completion marker is
whole; a folder without one is an unfinished download and is downloaded again.
"""

from __future__ import annotations

import fcntl
import importlib.util
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import Refused, Retriable
from holdfast.local.java import find_java
from holdfast.local.trust import trust_options

__all__ = ["REPOSITORY_VARIABLE", "Program", "downloaded_jars"]

REPOSITORY_VARIABLE = "HOLDFAST_LOCAL_MAVEN_REPOSITORY"

_MARKER = ".completed"
_DOWNLOADED = "[SUCCESSFUL ]"  # Ivy's line for each finished download
_IVY_XML = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="holdfast" module="local"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""
_DEPENDENCY = (
    '    <dependency org="{}" name="{}" rev="{}" transitive="{}" conf="default->default">'
    "{}</dependency>"
)
_ARTIFACT = '<artifact name="{name}" type="{ext}" ext="{ext}" m:classifier="{classifier}"/>'
_ARCHIVES = "*.tar.gz"
_SETTINGS_XML = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="{poms}"{root}/></resolvers>
</ivysettings>
"""


@dataclass(frozen=True)
class Program:
    """A Java program in Maven Central.

    Args:
        name: the program, as messages and its folder call it.
        coordinates: what to download, each as `group:artifact:version`, or as
            `group:artifact:version:classifier:extension`; a tar.gz is unpacked once checked.
        main_jar: a pattern for the jar without which the others are worth nothing.
        size_mb: the size of all jars.
        check: raises `Refused` unless the folder's jars are the ones that were pinned.
        transitive: download what the coordinates depend on, too.
        types: the kinds of files to keep; some jars need libraries (`so`) beside them.
    """

    name: str
    version: str
    coordinates: tuple[str, ...]
    main_jar: str
    size_mb: int
    check: Callable[[Path], None]
    transitive: bool = True
    types: tuple[str, ...] = ("jar", "bundle", "tar.gz")

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    def cache_folder(self, environment: Mapping[str, str]) -> Path:
        """Where the jars of this version are kept: below XDG_CACHE_HOME or ~/.cache."""
        base = environment.get("XDG_CACHE_HOME")
        root = Path(base) if base else Path.home() / ".cache"
        return root / "holdfast" / f"{self.name.lower().replace(' ', '-')}-{self.version}"


def downloaded_jars(
    program: Program, report: Callable[[str], None], environment: Mapping[str, str]
) -> Path:
    """The folder of a program's jars; downloads them the first time.

    Two processes may call it at the same time: the second waits for the first.

    Args:
        report: receives short lines about the download.

    Raises:
        Retriable: Maven Central cannot be reached.
        Refused: the downloaded jars are not the pinned ones, or Java is missing.
    """
    folder = program.cache_folder(environment)
    if (folder / _MARKER).is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix(".lock"), program, report):
        if not (folder / _MARKER).is_file():
            _download(program, folder, report, environment)
    return folder


def _ivy_jar() -> Path:
    """PySpark's Ivy jar; found without importing PySpark.

    Raises:
        Refused: it is not there.
    """
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted(Path(place, "jars").glob("ivy-*.jar")):
            return jar
    raise Refused(
        "PySpark's jars/ivy-*.jar was not found.",
        cause="PySpark is not installed, or not the one from the lock file.",
        action="run `make setup`.",
    )


@contextmanager
def _locked(path: Path, program: Program, report: Callable[[str], None]) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another process that is downloading {program.name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(
    program: Program, folder: Path, report: Callable[[str], None], env: Mapping[str, str]
) -> None:
    """Resolve into a temporary folder beside the final one, then rename it into place."""
    java = find_java(env)
    report(f"downloading {program} ({program.size_mb} MB, once)")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="download-") as name:
        work = Path(name)
        root = env.get(REPOSITORY_VARIABLE)
        chosen = f' root="{root}"' if root else ""
        (work / "ivy.xml").write_text(_ivy_xml(program), encoding="utf-8")
        # A parent's POM may import dozens of others: only dependencies need them.
        settings = _SETTINGS_XML.format(root=chosen, poms=str(program.transitive).lower())
        (work / "settings.xml").write_text(settings, encoding="utf-8")
        _run_ivy([java, *trust_options(env, work)], program, work, report)
        jars = work / "jars"
        program.check(jars)
        _unpack(jars)
        (jars / _MARKER).write_text("\n".join(sorted(p.name for p in jars.iterdir())) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        jars.rename(folder)


def _ivy_xml(program: Program) -> str:
    transitive = str(program.transitive).lower()
    dependencies = (_dependency(each, transitive) for each in program.coordinates)
    return _IVY_XML.format(dependencies="\n".join(dependencies))


def _dependency(coordinate: str, transitive: str) -> str:
    group, name, version, *artifact = coordinate.split(":")
    chosen = ""
    if artifact:
        classifier, extension = artifact
        chosen = _ARTIFACT.format(name=name, classifier=classifier, ext=extension)
    return _DEPENDENCY.format(group, name, version, transitive, chosen)


def _unpack(folder: Path) -> None:
    """Replaces archives by their content."""
    for archive in folder.glob(_ARCHIVES):
        with tarfile.open(archive) as files:
            # As an attribute, because Python 3.11.0 to 3.11.3 (Debian 12) know no such argument.
            files.extraction_filter = getattr(tarfile, "data_filter", None)
            files.extractall(folder)  # noqa: S202 - from Maven Central, whose checksum Ivy compares
        archive.unlink()


def _run_ivy(java: list[str], program: Program, work: Path, report: Callable[[str], None]) -> None:
    command = [*java, "-cp", str(_ivy_jar()), "org.apache.ivy.Main"]
    command += ["-settings", str(work / "settings.xml"), "-ivy", str(work / "ivy.xml")]
    command += ["-cache", str(work / "ivy"), "-types", *program.types]
    command += ["-retrieve", str(work / "jars" / "[artifact]-[revision](-[classifier]).[ext]")]
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
                    report(f"downloading {program}: {count} files")
    if ivy.returncode != 0 or not any((work / "jars").glob(program.main_jar)):
        raise _unreachable(program, said)


def _unreachable(program: Program, said: list[str]) -> Retriable:
    telling = [line.strip() for line in said if "WARN" in line or "ERROR" in line.upper()]
    shown = "\n".join(f"    {line}" for line in (telling or said)[:6])
    return Retriable(
        f"{program} could not be downloaded from Maven Central. Ivy said:\n{shown}",
        cause="this machine is offline, or a proxy or mirror stands between.",
        action=(
            "connect once, the jars are then kept; or set JAVA_TOOL_OPTIONS to your proxy "
            "(-Dhttps.proxyHost=… -Dhttps.proxyPort=…), or "
            f"{REPOSITORY_VARIABLE} to the address of a Maven mirror."
        ),
    )
