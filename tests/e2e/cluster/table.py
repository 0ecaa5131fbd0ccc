"""The table under test: its load, what its driver says of it, and the verdict on it."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import Any

from tests.e2e.cluster.kube import BOOTSTRAP, CONTEXT, NAMESPACE, ROOT, helm, kubectl, until

NAME = "e2e"
DRIVER = f"{NAME}-driver-0"
CLI_POD = "e2e-cli"
TOPIC = "e2e_sales"
PARTITIONS = 4
SQL = f"""
CREATE STREAM sales (title STRING, amount INT)
  WITH (KAFKA_TOPIC = '{TOPIC}', PARTITIONS = 3, VALUE_FORMAT = 'JSON');
CREATE TABLE sold AS
  SELECT title, COUNT(*) AS n, SUM(amount) AS total FROM sales GROUP BY title EMIT CHANGES;
CREATE STREAM big_sales AS SELECT title, amount FROM sales WHERE amount > 90 EMIT CHANGES;
"""
_RECORDS = """
import json, random, sys
seed, count = map(int, sys.argv[1:])
chance = random.Random(seed)
for i in range(count):
    title = f"title-{min(chance.randrange(400), chance.randrange(400))}"
    print(json.dumps({"title": title, "amount": chance.randrange(100)}))
"""
_POLLER = """
import json, sys, time, urllib.request
while True:
    try:
        with urllib.request.urlopen(sys.argv[1], timeout=1) as answer:
            print(json.dumps([time.time(), json.load(answer)]), flush=True)
    except OSError:
        pass
    time.sleep(0.1)
"""


def in_cli_pod(*command: str) -> subprocess.CompletedProcess[str]:
    full = ["kubectl", "--context", CONTEXT, "-n", NAMESPACE, "exec", CLI_POD, "--", *command]
    return subprocess.run(full, capture_output=True, text=True, check=False)


def upgrade(*values: str) -> None:
    """Upgrades the table's release to this chart, with values as `--set` takes them."""
    sets = [part for value in values for part in ("--set", value)]
    chart = str(ROOT / "helm/holdfast")
    done = helm("upgrade", NAME, chart, "--reuse-values", "--wait", "--timeout", "4m", *sets)
    assert done.returncode == 0, done.stderr


class Burst:
    """Records that go into the source topic while faults happen; `seed` says which."""

    def __init__(self, seed: int, count: int, rate: int) -> None:
        self.count = count
        produce = (
            f"python -c '{_RECORDS}' {seed} {count} | holdfast produce - --topic {TOPIC} "
            f"--key title --rate {rate} --home /tmp --set bootstrap.servers={BOOTSTRAP}"
        )
        command = ["kubectl", "--context", CONTEXT, "-n", NAMESPACE, "exec", CLI_POD, "--"]
        self._process = subprocess.Popen(
            [*command, "bash", "-o", "pipefail", "-c", produce],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, within_s: float = 240) -> None:
        output, _ = self._process.communicate(timeout=within_s)
        assert self._process.returncode == 0, output


@dataclass(frozen=True)
class Seen:
    """One answer of the driver: when (seconds since the epoch), and what."""

    at: float
    status: dict[str, Any]

    @property
    def committed(self) -> int:
        """Records that the table has committed; commit markers carry the count over restarts."""
        tables = (q for q in self.status["queries"].values() if q["changelog"])
        return sum(q["records_total"] for q in tables)

    @property
    def level(self) -> bool:
        return bool(self.status["ready"]) and self.status["lag"] == 0


class Watch:
    """Asks the driver ten times a second, from within the cluster; owns what it answered."""

    def __init__(self, namespace: str = NAMESPACE) -> None:
        command = ["kubectl", "--context", CONTEXT, "-n", NAMESPACE, "exec", CLI_POD, "--"]
        url = f"http://{NAME}-driver.{namespace}:8090/status"
        self._process = subprocess.Popen(
            [*command, "python", "-c", _POLLER, url], stdout=subprocess.PIPE, text=True
        )
        self.seen: list[Seen] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.seen.append(Seen(*json.loads(line)))

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def committed_since(self, moment: float) -> int:
        """Records committed after a moment; 0 while nothing is known from before it."""
        before = [s.committed for s in self.seen if s.at <= moment]
        after = [s.committed for s in self.seen if s.at > moment]
        return max(after, default=0) - max(before) if before and after else 0

    def silence(self, moment: float, *others: Watch) -> float:
        """Seconds of the longest time without a commit, among those that ended after `moment`.

        A batch that was all but done when the fault came may still be told after it; so the
        recovery is not the first commit after the fault but the end of the longest silence.

        Args:
            others: what drivers of the same job in other namespaces have answered counts as well.
        """
        commits, most = [], -1
        told = [seen for each in (self, *others) for seen in list(each.seen)]
        for seen in sorted(told, key=lambda seen: seen.at):
            if seen.committed > most:
                commits.append(seen.at)
                most = seen.committed
        pairs = itertools.pairwise(commits)
        return max((b - max(a, moment) for a, b in pairs if b > moment), default=0.0)

    def until_level(self, seconds: float) -> None:
        asked = time.time()
        until(
            lambda: any(s.at > asked + 3 and s.level for s in self.seen[-20:]),
            seconds,
            f"{NAME} level with its source; last seen: {self.seen[-1:]}",
        )


def verdict() -> dict[str, Any]:
    """Runs `holdfast verify`, which recomputes every table from the source topic."""
    kubectl("exec", "-i", CLI_POD, "--", "sh", "-c", "cat > /tmp/e2e.sql", text=SQL)
    ran = in_cli_pod(
        *("holdfast", "verify", "/tmp/e2e.sql", "--json", "--home", "/tmp"),
        *("--set", f"bootstrap.servers={BOOTSTRAP}", "--set", f"application.id={NAME}"),
        *("--set", f"state.partitions={PARTITIONS}"),
    )
    assert ran.stdout.startswith("{"), ran.stdout + ran.stderr
    report: dict[str, Any] = json.loads(ran.stdout)
    return report


def exact(least: int) -> None:
    """Asserts that both tables equal their recomputation, from `least` records or more each."""
    report = verdict()
    wrong = [f for t in report["tables"] for f in t["findings"] if f["verdict"] != "valid"]
    assert report["verdict"] == "valid", wrong
    judged = {t["name"]: t["input_records"] for t in report["tables"]}
    assert set(judged) == {"SOLD", "BIG_SALES"}
    assert all(count >= least for count in judged.values()), judged
