"""Code that is run in a process of its own with limits, so that a test is told if it takes more."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import textwrap

__all__ = ["limited"]

_GIB = 1 << 30
# Libraries take address space for threads and memory to come, which counts as well.
_FRUGAL = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def limited(code: str, *, cpu_s: int = 20, memory: int = 2 * _GIB) -> str:
    """Run the code and return its output; fail if it needs more processor time or memory.

    The limits are far above what is needed, and far below what it needs if they are wanted.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **_FRUGAL},
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-2_000:]}"
    return done.stdout.strip()
