#!/usr/bin/env python3
"""Trigger a DAG of the cluster's Airflow through its REST API and follow the run to its end.

    k8s/kind/run_dag.py DAG_ID [--conf JSON] [--sql-file FILE] [--context kind-holdfast]
                        [--run-id NAME] [--show TASK]

Exit status 0 when the run succeeds; 1 when it fails, with the last lines of the failed tasks' logs.
Needs kubectl, and nothing but Python's own library.
"""

# ruff: noqa: T201 - what it prints is its purpose
# ruff: noqa: S310 - it opens the address that kubectl has just given it
from __future__ import annotations

import argparse
import base64
import contextlib
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["Airflow", "follow", "forwarded"]

_NAMESPACE = "holdfast-platform"
_POLL_S = 2.0
_KNOWN_S = 120.0
_LOG_LINES = 15
_ENDED = ("success", "failed")


class Airflow:
    """Airflow's REST API at an address, as the user of the platform's Secret."""

    def __init__(self, url: str, user: str, password: str) -> None:
        """Log in; a token is good for a day."""
        self._url = url
        self._token = ""
        self._token = self.call("/auth/token", {"username": user, "password": password})[
            "access_token"
        ]

    def call(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The JSON that answers a GET, or a POST if there is a body.

        Raises:
            SystemExit: the API refused; its reason is printed.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(self._url + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            reason = error.read().decode(errors="replace")[:2000]
            sys.exit(f"Airflow refused {path} ({error.code}): {reason}")
        except OSError as error:
            sys.exit(f"Airflow does not answer on {self._url} ({error}): is its api-server ready?")

    def trigger(self, dag: str, conf: dict[str, Any], name: str | None = None) -> str:
        """The path of a new run of a DAG; waits for an Airflow that has yet to read its DAGs."""
        deadline = time.monotonic() + _KNOWN_S
        while dag not in self.dags() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        asked = {"logical_date": None, "conf": conf, **({"dag_run_id": name} if name else {})}
        run = self.call(f"/api/v2/dags/{dag}/dagRuns", asked)
        return f"/api/v2/dags/{dag}/dagRuns/{run['dag_run_id']}"

    def dags(self) -> set[str]:
        """Names of the DAGs that Airflow knows."""
        return {dag["dag_id"] for dag in self.call("/api/v2/dags?limit=100")["dags"]}

    def tasks(self, run: str) -> dict[str, tuple[str, int]]:
        """Of every task of a run: its state and how often it was tried."""
        found = self.call(f"{run}/taskInstances")["task_instances"]
        return {t["task_id"]: (t["state"] or "waiting", t["try_number"]) for t in found}

    def log(self, run: str, task: str, attempt: int) -> list[str]:
        """The lines of one attempt's log."""
        content = self.call(f"{run}/taskInstances/{task}/logs/{attempt}")["content"]
        return [str(line.get("event", "")) for line in content if isinstance(line, dict)]


@contextlib.contextmanager
def forwarded(context: str) -> Iterator[str]:
    """The address of the cluster's Airflow on a free port of this machine, while it is open."""
    command = ["kubectl", "--context", context, "-n", _NAMESPACE, "port-forward"]
    command += ["service/airflow-api-server", ":8080"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forward:
        assert forward.stdout is not None
        line = forward.stdout.readline()
        if "Forwarding from 127.0.0.1:" not in line:
            sys.exit("kubectl could not reach Airflow; its reason is above.")
        try:
            yield f"http://127.0.0.1:{line.split(':')[1].split()[0]}"
        finally:
            forward.terminate()


def password(context: str) -> str:
    """The password in the platform's Secret."""
    command = ["kubectl", "--context", context, "-n", _NAMESPACE, "get", "secret"]
    command += ["holdfast-platform", "-o", "jsonpath={.data.airflow-password}"]
    answer = subprocess.run(command, check=True, capture_output=True).stdout
    return base64.b64decode(answer).decode()


def follow(airflow: Airflow, run: str, show: str | None = None) -> bool:
    """Print every change of a task's state until the run has ended; True when it succeeded.

    At the end come the last lines of failed tasks' logs, and all of the log of the task `show`.
    """
    began = time.monotonic()
    seen: dict[str, tuple[str, int]] = {}
    while True:
        ended = airflow.call(run)["state"]
        for task, now in airflow.tasks(run).items():
            if seen.get(task, ("waiting", 0)) != now:
                print(f"{time.monotonic() - began:6.1f} s  {task}: {now[0]}", flush=True)
            seen[task] = now
        if ended in _ENDED:
            break
        time.sleep(_POLL_S)
    for task, (state, attempt) in seen.items():
        if task == show:
            print("\n".join(["", *airflow.log(run, task, attempt)]))
        elif state == "failed":
            print(f"\nThe end of the log of {task}:")
            print(
                "\n".join(f"    {line}" for line in airflow.log(run, task, attempt)[-_LOG_LINES:])
            )
    return bool(ended == "success")


def main() -> int:
    """Run as the text above says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("dag")
    parser.add_argument("--conf", type=json.loads, default={}, help="params of the run, JSON")
    parser.add_argument("--sql-file", type=Path, help="file whose text becomes the param `sql`")
    parser.add_argument("--run-id", help="name of the run")
    parser.add_argument("--show", metavar="TASK", help="whose log is printed at the end")
    parser.add_argument("--context", default="kind-holdfast", help="kubectl's")
    parser.add_argument("--user", default="admin", help="Airflow's")
    given = parser.parse_args()
    conf = dict(given.conf)
    if given.sql_file:
        conf["sql"] = given.sql_file.read_text(encoding="utf-8")
    with forwarded(given.context) as url:
        airflow = Airflow(url, given.user, password(given.context))
        run = airflow.trigger(given.dag, conf, given.run_id)
        return 0 if follow(airflow, run, given.show) else 1


if __name__ == "__main__":
    sys.exit(main())
