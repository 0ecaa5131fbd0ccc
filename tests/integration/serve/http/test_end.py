"""How a server ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import asyncio, sys
from pathlib import Path
from holdfast.local.probe import free_port
from holdfast.serve.http.server import Listen, running
from tests.support.console.world import World
from tests.support.serve.http_world import Told

def threads():
    return {path.name for path in Path("/proc/self/task").iterdir()}

async def start_and_stop():
    before = threads()
    async with running(World().serving(Path(sys.argv[1])), Told(), Listen(port=free_port())):
        assert threads() - before
    print(sorted(threads() - before))

for _ in range(10):
    asyncio.run(start_and_stop())
"""


def test_no_thread_of_a_server_is_left_when_it_has_ended(tmp_path: Path) -> None:
    """One that asks for the interpreter while that shuts down aborts the process."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split("\n")[:-1]) == (0, ["[]"] * 10), done.stderr
