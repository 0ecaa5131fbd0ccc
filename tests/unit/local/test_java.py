from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import Refused
from holdfast.local.java import find_java


def _java(folder: Path, version_line: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("line", ['openjdk version "17.0.15" 2025-04-15', 'java version "25" LTS'])
def test_java_home_comes_before_the_path(tmp_path: Path, line: str) -> None:
    wanted = _java(tmp_path / "home", line)
    other = _java(tmp_path / "other", 'openjdk version "21"')
    env = {"JAVA_HOME": str(tmp_path / "home"), "PATH": f"{other.parent}:/usr/bin:/bin"}
    assert find_java(env) == str(wanted)
    assert find_java({"PATH": env["PATH"]}) == str(other)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('java version "1.8.0_402"', "is Java 8; Kafka and Spark need 17"),
        ('openjdk version "11.0.2"', "is Java 11; Kafka and Spark need 17"),
        ("no idea", "did not name a version"),
    ],
)
def test_an_unfit_java_is_refused(tmp_path: Path, line: str, message: str) -> None:
    java = _java(tmp_path, line)
    with pytest.raises(Refused, match=message):
        find_java({"PATH": f"{java.parent}:/usr/bin:/bin"})


def test_no_java_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no Java is on the PATH") as caught:
        find_java({"PATH": str(tmp_path)})
    assert "JAVA_HOME" in caught.value.action
    with pytest.raises(Refused, match="JAVA_HOME points elsewhere"):
        find_java({"PATH": "/usr/bin", "JAVA_HOME": str(tmp_path)})
