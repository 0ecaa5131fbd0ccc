"""A job on the secured broker whose commands come as a principal each, secrets in files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from holdfast.config.secrets import FILE, is_secret
from holdfast.sql import compile_text
from holdfast.types.acls import Names, Part, bindings, needs_of
from tests.support.servers.secured_kafka import SecuredKafka, Way

__all__ = ["SecuredJob"]

_SMALL = {
    "state.partitions": 2,
    "spark.master": "local-cluster[1,1,460]",
    "executors": 1,
    "executor.memory.mb": 460,  # the smallest that the properties take
    "driver.memory.mb": 460,
    "metrics.port": 0,
}


class SecuredJob:
    """Owns the files of the job and the ACLs of its principals, and runs commands on it.

    Args:
        who: by part, its user and how that says who it is; each gets the ACLs of its part alone.
    """

    def __init__(
        self,
        kafka: SecuredKafka,
        folder: Path,
        sql: str,
        application_id: str,
        who: Mapping[Part, tuple[str, Way]],
    ) -> None:
        self._folder, self._kafka, self._who = folder, kafka, who
        self.home = folder / "home"
        self.sql = folder / "store.sql"
        self.sql.write_text(sql)
        self._own = _SMALL | {
            "application.id": application_id,
            "dead.letter.topic": f"spoiled-{application_id}",
        }
        self.names = Names.of(compile_text(sql), application_id, f"spoiled-{application_id}")
        for part, (user, _) in who.items():
            kafka.grant(user, bindings(needs_of(part), self.names))

    def close(self) -> None:
        """Takes the ACLs back."""
        for user, _ in self._who.values():
            self._kafka.revoke_all(user)

    def run(self, part: Part, *words: str) -> str:
        """A command as the part's principal; what it printed."""
        done = self.tried(part, *words)
        assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}\n{done.stderr[-6000:]}"
        return done.stdout

    def tried(self, part: Part, *words: str) -> subprocess.CompletedProcess[str]:
        """A command that may fail."""
        return subprocess.run(
            self.command(part, *words), capture_output=True, text=True, check=False
        )

    def command(self, part: Part, *words: str) -> list[str]:
        """The words of a command."""
        return self.bare(*words, "--config", str(self.config(part)))

    def bare(self, *words: str) -> list[str]:
        """The words of a command that asks nothing of Kafka."""
        return [sys.executable, "-m", "holdfast.cli.main", *words, "--home", str(self.home)]

    def config(self, part: Part) -> Path:
        """A file of properties with which commands come as the part's principal."""
        user, way = self._who[part]
        client = dict(self._kafka.client(user, way))
        own: dict[str, object] = {"bootstrap.servers": client.pop("bootstrap.servers")}
        for name, value in client.items():
            own |= self._secret(user, name, value) if is_secret(name) else {f"kafka.{name}": value}
        path = self._folder / f"{user}.yaml"
        path.write_text(yaml.safe_dump(own | self._own))
        return path

    def _secret(self, user: str, name: str, value: str) -> dict[str, object]:
        file = self._folder / f"{user}.{name}"
        file.touch(mode=0o600)
        file.write_text(value)
        return {f"kafka.{name}{FILE}": str(file)}
