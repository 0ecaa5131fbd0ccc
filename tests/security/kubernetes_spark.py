"""`python -m tests.security.kubernetes_spark FOLDER`: a driver and the image's executors, here.

The driver has the settings that it has in a cluster, and a Kubernetes that knows one pod.
Executors are started by the image's own script: one that has the secret, one that has another, and
a stranger who just speaks to the driver.  Prints what became of each as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pyspark

from holdfast.config.settings import Settings
from holdfast.runtime.jvm import session

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "k8s" / "images" / "holdfast" / "bin" / "holdfast-executor"
SECRET, ANOTHER = "canary-of-the-release", "canary-of-somebody-else"
_END_S = 90.0
_POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "executor-0", "namespace": "default", "uid": "u", "resourceVersion": "1",
                 "labels": {"spark-app-selector": "tried", "spark-role": "executor"}},
    "spec": {"containers": [{"name": "executor", "image": "x"}]},
    "status": {"phase": "Running", "podIP": "127.0.0.1"},
}  # fmt: skip


class _Kubernetes(BaseHTTPRequestHandler):
    """Knows one executor's pod, once Spark has labelled it with an executor's id."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        labelled = "spark-exec-id" in _POD["metadata"]["labels"]
        listed = {"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "1"},
                  "items": [_POD] if labelled else []}  # fmt: skip
        self._answer(_POD if self.path.endswith("/executor-0") else listed)

    def do_PATCH(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        _POD["metadata"]["labels"]["spark-exec-id"] = "1"
        self._answer(_POD)

    def _answer(self, found: object) -> None:
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _image_of(folder: Path, java_options: str) -> dict[str, str]:
    """The environment that an executor's script has in the image: one jar stands for all."""
    jars = folder / "image" / "jars"
    jars.mkdir(parents=True)
    every = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    line = "Class-Path: " + " ".join(jar.as_uri() for jar in every)
    wrapped = "\r\n ".join([line[:70], *(line[i : i + 69] for i in range(70, len(line), 69))])
    with zipfile.ZipFile(jars / "spark.jar", "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\r\n{wrapped}\r\n\r\n")
    java = shutil.which("java")
    assert java is not None
    return {
        **os.environ,
        "DRIVER_HOST": "127.0.0.1",
        "SPARK_APPLICATION_ID": "tried",
        "SPARK_EXECUTOR_POD_NAME": "executor-0",
        "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
        "SPARK_HOME": str(folder / "image"),
        "JAVA_HOME": str(Path(java).resolve().parents[1]),
        "EXECUTOR_JAVA_OPTIONS": java_options,
        "PYTHONPATH": str(ROOT / "jobs"),
        "PYSPARK_PYTHON": sys.executable,
    }


@contextmanager
def _executor(folder: Path, environment: dict[str, str], secret: str) -> Iterator[Path]:
    """The script with a secret; its log."""
    file, log = folder / secret, folder / f"{secret}.log"
    file.write_text(secret)
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["bash", str(SCRIPT)],
            env={**environment, "SPARK_SECRET_FILE": str(file), "SPARK_LOCAL_DIRS": str(folder)},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield log
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _stranger(port: int) -> str:
    """What a driver answers to Spark's own request for all of its settings, from nobody."""
    body = b"\x00" * 64
    frame = struct.pack(">BqI", 3, 1, len(body)) + body  # RpcRequest, its id, its body
    with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
        peer.sendall(struct.pack(">q", 8 + len(frame)) + frame)
        answer = b""
        while part := peer.recv(65536):
            answer += part
            if len(answer) >= 8 and len(answer) >= struct.unpack(">q", answer[:8])[0]:
                break
    return answer.decode(errors="replace")


def _until(log: Path, words: str) -> str:
    deadline = time.monotonic() + _END_S
    while words not in (text := log.read_text(errors="replace")):
        if time.monotonic() > deadline:
            return text
        time.sleep(0.1)
    return text


def _command_lines() -> str:
    me = psutil.Process()
    every = [me, *me.children(recursive=True)]
    lines = []
    for process in every:
        with suppress(psutil.Error):  # it has just ended
            lines.append(" ".join(process.cmdline()))
    return "\n".join(lines)


def _tried(folder: Path) -> dict[str, object]:
    api = ThreadingHTTPServer(("127.0.0.1", 0), _Kubernetes)
    threading.Thread(target=api.serve_forever, daemon=True).start()
    own = folder / "driver-secret"
    own.write_text(SECRET)
    # A port of this machine, not of a pod; and this Kubernetes tells nobody of changes.
    more = {"spark.driver.port": "0", "spark.driver.blockManager.port": "0",
            "spark.kubernetes.executor.enableApiWatcher": "false"}  # fmt: skip
    session._KUBERNETES.update(more)
    master = f"k8s://http://127.0.0.1:{api.server_port}"
    settings = Settings("tried", home=str(folder), master=master, spark_secret_file=str(own))
    context = session.spark_context(settings)
    port = int(str(context.getConf().get("spark.driver.port")))
    jvm: Any = context._jvm
    options = jvm.org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptions()
    environment = _image_of(folder, str(options)) | {"DRIVER_PORT": str(port)}
    with _executor(folder, environment, ANOTHER) as refused:
        said = _until(refused, "The executor ended with status")
    with _executor(folder, environment, SECRET):
        rows = context.parallelize(range(4), 2).map(lambda n: (n, bytes(1_000_000)))
        sizes = rows.partitionBy(2).mapValues(len).collect()
        lines = _command_lines()
    stranger = _stranger(port)
    context.stop()
    api.shutdown()
    return {"said": said, "sizes": sorted(sizes), "lines": lines, "stranger": stranger}


if __name__ == "__main__":
    os.environ.update(
        KUBECONFIG=os.devnull,
        SPARK_LOCAL_IP="127.0.0.1",
        SPARK_LOCAL_HOSTNAME="127.0.0.1",
        PYSPARK_PYTHON=sys.executable,
        PYSPARK_SUBMIT_ARGS="--conf spark.app.id=tried "
        "--conf spark.kubernetes.namespace=default pyspark-shell",
    )
    found = _tried(Path(sys.argv[1]))
    sys.stdout.write("\n" + json.dumps(found) + "\n")
