"""Query servers of a release on Kubernetes: look-ups go on while one of two is taken away."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from typing import Any

import pytest

from tests.e2e.cluster import table
from tests.e2e.cluster.kube import (
    CONTEXT,
    NAMESPACE,
    ROOT,
    helm,
    kubectl,
    objects,
    try_kubectl,
    until,
)
from tests.e2e.cluster.table import Burst, Watch

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

CHART = str(ROOT / "helm/holdfast")
_SECONDS = 40
_READER = """
import json, sys, time
from holdfast.client import Client
url, seconds = sys.argv[1], float(sys.argv[2])
seen, answers, back, servers = {}, 0, [], set()  # back: title, before, now, from whom and where
with Client(url) as client:
    first = client.query("SELECT * FROM sold WHERE title = 'title-0';")
    print(*(p.server for p in first.partitions.values()), flush=True)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        title = f"title-{answers % 200}"
        found = client.query(f"SELECT * FROM sold WHERE title = '{title}';")
        n = found.rows[0]["N"] if found.rows else 0
        states = [(p.server, p.position) for p in found.partitions.values()]
        back += [(title, seen[title], n, *states)] if n < seen.get(title, 0) else []
        seen[title] = n
        servers |= {p.server for p in found.partitions.values()}
        answers += 1
print(json.dumps({"answers": answers, "back": back[:9], "servers": sorted(servers)}))
"""
_TOTAL = """
import json, sys
from holdfast.client import Client
with Client(sys.argv[1]) as client:
    scan = {"ksql.query.pull.table.scan.enabled": True}
    rows = client.query("SELECT SUM(n) AS n, COUNT(*) AS titles FROM sold;", properties=scan).rows
    print(json.dumps(dict(rows[0])))
"""
_GET = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"


def _python(script: str, *arguments: str) -> list[str]:
    pod = ["kubectl", "--context", CONTEXT, "-n", NAMESPACE, "exec", table.CLI_POD]
    return [*pod, "--", "python", "-c", script, *arguments]


def _counted(url: str) -> dict[str, Any]:
    ran = subprocess.run(_python(_TOTAL, url), capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def _has(url: str, records: int) -> bool:
    return (_counted(url)["N"] or 0) == records  # the sum of no rows is NULL


def _console(url: str, path: str) -> Any:
    command = _python(_GET, f"{url}/console/api/{path}")
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _may(verb: str, what: str) -> bool:
    """Whether the servers' account may."""
    account = f"system:serviceaccount:{NAMESPACE}:{table.NAME}-serve"
    said = try_kubectl("auth", "can-i", verb, *what.split(), "--as", account).stdout.strip()
    assert said in ("yes", "no")
    return said == "yes"


def test_the_console_shows_the_release_s_own_pods_and_their_logs(served: str) -> None:
    told = _console(served, "pods")
    assert told["refused"] is None
    found = {pod["name"]: pod for pod in told["pods"]}
    there = [pod for pod in objects("pods", "-l", f"app.kubernetes.io/instance={table.NAME}")
             if "apps.kubernetes.io/pod-index" in pod["metadata"]["labels"]]  # fmt: skip
    assert set(found) == {pod["metadata"]["name"] for pod in there}
    driver = found[f"{table.NAME}-driver-0"]
    assert (driver["state"], driver["ready"]) == ("Running", True)
    assert _console(served, f"pods/{table.NAME}-driver-0/log")["lines"]
    assert _may("get", f"pods/{table.NAME}-driver-0 --subresource=log")
    others = ("pods/others-driver-0", "secrets", f"pods/{table.NAME}-driver-0 --subresource=exec")
    assert not any(_may("get", what) for what in others)
    assert not any(_may(verb, "pods") for verb in ("list", "watch", "delete", "patch"))


def test_look_ups_go_on_while_a_server_is_deleted(served: str, watch: Watch) -> None:
    """No look-up fails, none goes back, and in the end the servers have what the table has.

    The tests after this one have the machine without them.
    """
    watch.until_level(60)
    committed = watch.seen[-1].committed
    for each in ("0", "1"):  # which of them is asked first is by chance
        address = served.replace("-serve:", f"-serve-{each}.{table.NAME}-serve-pods:")
        until(partial(_has, address, committed), 30, f"server {each} has all {committed} records")
    burst = Burst(seed=31, count=6_000, rate=300)
    with subprocess.Popen(
        _python(_READER, served, str(_SECONDS)), stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        asked = reader.stdout.readline().strip()  # a client stays with the server that answers
        kubectl("delete", "pod", f"{table.NAME}-serve-{asked}", "--grace-period=0", "--force")
        told = json.loads(reader.stdout.read())
    burst.finish()
    watch.until_level(240)
    assert told["answers"] > 100, told
    assert (told["back"], told["servers"]) == ([], ["0", "1"])
    committed = watch.seen[-1].committed
    until(
        lambda: _counted(served)["N"] == committed, 30, f"the servers have all {committed} records"
    )
    tested = helm("test", table.NAME, "--timeout", "4m")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    off = helm("upgrade", table.NAME, CHART, "--reuse-values", "--set", "serve.enabled=false",
               "--wait", "--timeout", "4m")  # fmt: skip
    assert off.returncode == 0, off.stderr
