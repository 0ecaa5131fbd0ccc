"""A real S3 server on this machine: S3Proxy, which keeps each object as a file.

    with S3Server(folder) as s3:
        s3.make_bucket("snapshots")
        files, path = FileSystem.from_uri(s3.uri("snapshots", "jobs/clerk"))

Clients take the key from the environment: `s3.environment()`.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Self
from urllib.parse import quote, urlencode

from holdfast.errors import Refused
from holdfast.local.ivy import Program, downloaded_jars
from holdfast.local.java import find_java
from holdfast.local.probe import HOST, free_port

__all__ = ["S3Server", "credentials", "proxy_command", "proxy_jars", "proxy_settings"]

# `sha256sum *.jar | LC_ALL=C sort | sha256sum` in the folder of the jars.
_JARS_SHA256 = "ade1bc85293e5c177508be905ad575e96dfa7ae48d928f9d2a98027181c6b346"
_ACCESS_KEY = "tester"
_SECRET_KEY = "secret-of-tests"
_REGION = "us-east-1"
_START_S = 60.0
_STOP_S = 10.0
_POLL_S = 0.05
_JAVA_OPTIONS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOGBACK_XML = """<configuration>
  <appender name="output" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %level %logger{0}: %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="output"/></root>
</configuration>
"""


def _check_jars(jars: Path) -> None:
    """Raises `Refused` unless these are exactly the pinned jars."""
    sums = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars.glob("*.jar")}
    lines = sorted(f"{sum_of_jar}  {name}\n" for name, sum_of_jar in sums.items())
    found = hashlib.sha256("".join(lines).encode()).hexdigest()
    if found != _JARS_SHA256:
        raise Refused(
            f"The jars of {_S3PROXY} are not the pinned ones: their sums' sum is {found}.",
            cause="a mirror or a proxy gave other files, or the version was changed.",
            action="do not run them; find out who changed them, or download from Maven Central.",
        )


_AWS, _JACKSON, _LOGBACK = "2.54.2", "3.2.2", "1.6.3"
_AWS_JARS = ("s3", "sdk-core", "aws-core", "http-client-spi", "utils", "checksums", "checksums-spi")
_S3PROXY = Program(
    name="S3Proxy",
    version="4.1.0",
    # What it loads for objects in files; its other hundred jars are clients of public clouds.
    coordinates=(
        "org.gaul:s3proxy:4.1.0",
        "args4j:args4j:2.37",
        f"ch.qos.logback:logback-classic:{_LOGBACK}",
        f"ch.qos.logback:logback-core:{_LOGBACK}",
        "com.fasterxml.jackson.core:jackson-annotations:2.22",
        "com.fasterxml.woodstox:woodstox-core:7.2.1",
        "com.google.guava:failureaccess:1.0.3",
        "com.google.guava:guava:33.7.1-jre",
        "jakarta.servlet:jakarta.servlet-api:6.0.0",
        "org.codehaus.woodstox:stax2-api:4.3.0",
        "org.slf4j:slf4j-api:2.0.18",
        *(f"software.amazon.awssdk:{name}:{_AWS}" for name in _AWS_JARS),
        f"tools.jackson.core:jackson-core:{_JACKSON}",
        f"tools.jackson.core:jackson-databind:{_JACKSON}",
        f"tools.jackson.dataformat:jackson-dataformat-xml:{_JACKSON}",
    ),
    transitive=False,
    main_jar="s3proxy-*.jar",
    size_mb=19,
    check=_check_jars,
)


def credentials() -> dict[str, str]:
    """The variables from which clients take the key; a URI never holds it."""
    return {
        "AWS_ACCESS_KEY_ID": _ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": _SECRET_KEY,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def proxy_jars() -> Path:
    """The folder with the server's jars."""
    return downloaded_jars(_S3PROXY, print, os.environ)


def proxy_settings(endpoint: str, data: str) -> str:
    """The server's file of properties; a bucket is a folder in `data`."""
    settings = {
        "s3proxy.endpoint": endpoint,
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": _ACCESS_KEY,
        "s3proxy.credential": _SECRET_KEY,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.identity": "unused",
        "jclouds.credential": "unused",
        "jclouds.filesystem.basedir": data,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def proxy_command(java: str, jars: str, settings: str) -> list[str]:
    """The command that starts it, given paths."""
    main = ["org.gaul.s3proxy.Main", "--properties", settings]
    return [java, *_JAVA_OPTIONS, "-cp", f"{jars}/*", *main]


class S3Server:
    """Owns one server process, and its folder and port, which outlive a `stop`.

    Args:
        folder: holds the data, the settings and the server's output.
    """

    def __init__(self, folder: Path) -> None:
        """Writes the settings; entering the context starts the server."""
        self.port = free_port()
        self._folder = folder
        self._data = folder / "data"
        self._output = folder / "output.txt"
        self._process: subprocess.Popen[bytes] | None = None
        self._data.mkdir(parents=True)
        settings = proxy_settings(f"http://{HOST}:{self.port}", str(self._data))
        (folder / "s3proxy.properties").write_text(settings, encoding="utf-8")
        (folder / "logback.xml").write_text(_LOGBACK_XML, encoding="utf-8")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def uri(self, bucket: str, prefix: str = "") -> str:
        """The address of a folder, as `pyarrow.fs.FileSystem.from_uri` takes it."""
        place = f"{HOST}:{self.port}"
        query = urlencode({"scheme": "http", "endpoint_override": place, "region": _REGION})
        return f"s3://{quote(f'{bucket}/{prefix}'.rstrip('/'))}?{query}"

    def environment(self) -> dict[str, str]:
        """See `credentials`."""
        return credentials()

    def make_bucket(self, name: str) -> None:
        """Makes an empty bucket, which for this server is a folder."""
        (self._data / name).mkdir()

    def start(self) -> None:
        """Starts the server, with the data of the one before, and waits until it answers."""
        assert self._process is None, "the server runs already"
        settings = str(self._folder / "s3proxy.properties")
        java, *command = proxy_command(find_java(), str(proxy_jars()), settings)
        command = [java, f"-Dlogback.configurationFile={self._folder / 'logback.xml'}", *command]
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + _START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() >= deadline:
                self.stop()
                said = self._output.read_text(encoding="utf-8", errors="replace")
                raise AssertionError(f"{_S3PROXY} does not answer on port {self.port}:\n{said}")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Ends the server's process, a paused one too; nothing to do when none runs."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def pause(self) -> None:
        """Halts the server: connections stay open, and nobody answers on them."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets a paused server go on."""
        self._running().send_signal(signal.SIGCONT)

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server does not run"
        return self._process

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=1)
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        return True
