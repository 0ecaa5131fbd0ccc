"""Code that is run in a process of its own with limits, so that a test is told if it takes more."""

from __future__ import annotations

import resource
import subprocess
import sys
import textwrap

__all__ = ["limited"]

_GIB = 1 << 30


def limited(code: str, *, cpu_s: int = 20, memory: int = 2 * _GIB) -> str:
    """What the code prints; it fails the test if it needs more processor time or memory.

    The limits are far above what is needed, and far below what it needs if they are wanted.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-2_000:]}"
    return done.stdout.strip()
