"""A job that a test installs for itself: its input, its rows' verdict, and what is left of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.e2e.cluster.kube import BOOTSTRAP, IMAGE, ROOT, helm, kubectl, objects, until
from tests.e2e.cluster.table import CLI_POD, in_cli_pod

PARTITIONS = 4
_SQL = """
CREATE STREAM {name}_sales (title STRING, amount INT)
  WITH (KAFKA_TOPIC = '{name}_sales', PARTITIONS = 2, VALUE_FORMAT = 'JSON');
CREATE TABLE {name}_sold AS
  SELECT title, COUNT(*) AS n, SUM(amount) AS total FROM {name}_sales GROUP BY title EMIT CHANGES;
"""
_RECORDS = """
import json, random, sys
seed, count = map(int, sys.argv[1:])
chance = random.Random(seed)
for _ in range(count):
    print(json.dumps({"title": f"title-{chance.randrange(400)}", "amount": chance.randrange(100)}))
"""
_FORGET = f"""
import sys
from confluent_kafka.admin import AdminClient
admin = AdminClient({{"bootstrap.servers": "{BOOTSTRAP}"}})
mine = tuple(sys.argv[1:])
mine = [t for t in admin.list_topics(timeout=30).topics if t.startswith(mine)]
for gone in (admin.delete_topics(mine) if mine else {{}}).values():
    gone.result(30)
"""
_STATUS = """
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())
"""


@dataclass(frozen=True)
class Release:
    """A table that counts, under a name of its own; a word of small letters."""

    name: str

    @property
    def sql(self) -> str:
        return _SQL.format(name=self.name)

    @property
    def query(self) -> str:
        """The id of its query."""
        return f"ctas_{self.name}_sold"

    @property
    def pods(self) -> str:
        """The label of everything that is its own."""
        return f"app.kubernetes.io/instance={self.name}"

    @property
    def executors(self) -> str:
        return f"{self.pods},app.kubernetes.io/component=executor"

    def install(self, properties: Mapping[str, object], more: Mapping[str, Any]) -> None:
        """Installs it, and waits until it is ready.

        Args:
            more: further values of the chart.
        """
        repository, _, tag = IMAGE.partition(":")
        values = {
            "image": {"repository": repository, "tag": tag},
            "sql": self.sql,
            "kafka": {"bootstrapServers": BOOTSTRAP},
            "properties": {"state.partitions": PARTITIONS, **properties},
            **more,
        }
        chart = str(ROOT / "helm/holdfast")
        made = helm("install", self.name, chart, "--wait", "--timeout", "4m", values=values)
        assert made.returncode == 0, made.stderr
        kubectl("exec", "-i", CLI_POD, "--", "sh", "-c", f"cat > {self._file}", text=self.sql)

    def clear(self) -> None:
        """Ends it, if it is there, and deletes its volumes and topics."""
        helm("uninstall", self.name, "--wait", "--ignore-not-found")
        kubectl("delete", "job,pvc", "-l", self.pods, "--wait=true")
        until(lambda: not objects("pods", "-l", self.pods), 60, "the pods are gone")
        mine = (f"{self.name}-", f"{self.name}_sales", f"{self.name}_sold".upper())
        kubectl("exec", CLI_POD, "--", "python", "-c", _FORGET, *mine)

    def produce(self, seed: int, count: int) -> None:
        """Adds records to its input; `seed` says which."""
        produce = (
            f"python -c '{_RECORDS}' {seed} {count} | holdfast produce - --topic "
            f"{self.name}_sales --key title --home /tmp --set bootstrap.servers={BOOTSTRAP}"
        )
        made = in_cli_pod("bash", "-o", "pipefail", "-c", produce)
        assert made.returncode == 0, made.stdout + made.stderr

    def rescale(self, partitions: int) -> None:
        ran = in_cli_pod(
            "holdfast", "rescale", self.query, "--state-partitions", str(partitions),
            "--application-id", self.name, "--timeout", "120",
            "--set", f"bootstrap.servers={BOOTSTRAP}",
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout + ran.stderr

    def status(self) -> dict[str, Any]:
        """The answer of its driver; empty without one."""
        url = f"http://{self.name}-driver:8090/status"
        told = in_cli_pod("python", "-c", _STATUS, url).stdout
        found: dict[str, Any] = json.loads(told) if told.startswith("{") else {}
        return found

    def partitions(self) -> list[dict[str, Any]]:
        """The state partitions of its table, as its driver tells."""
        query = self.status().get("queries", {}).get(self.query, {})
        found: list[dict[str, Any]] = query.get("state_partitions", [])
        return found

    def counted(self, records: int) -> None:
        """Waits until the judge finds the table right, over so many records."""
        until(lambda: self._verdict() == ("valid", records), 120, f"{records} records are counted")

    def _verdict(self) -> tuple[str, int]:
        ran = in_cli_pod(
            "holdfast", "verify", self._file, "--json", "--home", "/tmp",
            "--set", f"bootstrap.servers={BOOTSTRAP}", "--set", f"application.id={self.name}",
            "--set", f"state.partitions={PARTITIONS}",
        )  # fmt: skip
        assert ran.stdout.startswith("{"), ran.stdout + ran.stderr
        report = json.loads(ran.stdout)
        return report["verdict"], sum(t["input_records"] for t in report["tables"])

    @property
    def _file(self) -> str:
        return f"/tmp/{self.name}.sql"
