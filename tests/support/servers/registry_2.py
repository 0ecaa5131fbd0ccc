"""Apicurio Registry 2.6, which many clusters still run; its schemas are in memory here."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.local.detached import alive, end, last_words, launch
from holdfast.local.ivy import Program, downloaded_jars
from holdfast.local.java import find_java
from holdfast.local.probe import HOST, free_port
from holdfast.local.registry import is_ready

__all__ = ["registry_2"]

_VERSION = "2.6.13.Final"
_SHA256 = "3cda1b34aa020fb4ac4dd6a66018d757e81e437f97e20a1f92d366b70091c6ba"
_START_S = 120.0


@contextmanager
def registry_2(folder: Path) -> Iterator[str]:
    """The address of its Confluent API."""
    port = free_port()
    jars = downloaded_jars(_program(), print, os.environ)
    options = [f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={port}"]
    options += ["-Dquarkus.datasource.jdbc.initial-size=1", "-Dquarkus.datasource.jdbc.min-size=1"]
    jar = jars / f"apicurio-registry-app-{_VERSION}-runner.jar"
    quick = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    output = folder / "registry.out"
    process = launch([find_java(), *quick, *options, "-jar", str(jar)], output)
    try:
        deadline = time.monotonic() + _START_S
        while not is_ready(port):
            assert alive(*process), last_words(output)
            assert time.monotonic() < deadline, last_words(output)
            time.sleep(0.2)
        yield f"http://{HOST}:{port}/apis/ccompat/v7"
    finally:
        end(*process, signal.SIGKILL)


def _program() -> Program:
    return Program(
        name="Apicurio Registry",
        version=_VERSION,
        coordinates=(f"io.apicurio:apicurio-registry-app:{_VERSION}:all:tar.gz",),
        main_jar="apicurio-registry-app-*-all.tar.gz",
        size_mb=142,
        check=_check,
        transitive=False,
    )


def _check(folder: Path) -> None:
    for archive in folder.iterdir():
        assert hashlib.sha256(archive.read_bytes()).hexdigest() == _SHA256
