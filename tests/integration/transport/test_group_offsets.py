"""Group offsets on a broker that stops answering: an error, then a commit once it answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.local.broker import LocalKafka

# A process of its own: what it is about ended the whole process, without an exception.
_SCRIPT = """
import sys
from holdfast.errors import KafkaUnavailable
from holdfast.transport.cluster.admin import Admin

admin = Admin({"bootstrap.servers": sys.argv[1], "socket.timeout.ms": "1000"}, 2.0)
admin.ensure_topic("t", 1)
admin.commit_group("g", "t", {0: 1})
print("silence", flush=True)
input()
try:
    admin.commit_group("g", "t", {0: 2})
except KafkaUnavailable as error:
    print(error.fact, flush=True)
input()
admin.commit_group("g", "t", {0: 3})
print(admin.committed("g", "t"), flush=True)
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[LocalKafka]:
    own = LocalKafka(tmp_path / "kafka")
    yield own
    own.wipe()


def test_a_silent_coordinator_ends_no_process(own: LocalKafka) -> None:
    broker = own.start(port=0)
    with subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, broker.bootstrap_servers],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as asking:  # fmt: skip
        assert asking.stdin is not None
        assert asking.stdout is not None
        assert asking.stdout.readline() == "silence\n"
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            print(file=asking.stdin, flush=True)
            assert "failed committing offsets of group g" in asking.stdout.readline()
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        print(file=asking.stdin, flush=True)
        assert asking.stdout.readline() == "{0: 3}\n"
        assert asking.wait() == 0
