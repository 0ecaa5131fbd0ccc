"""Workers as the server sees them: calls that end in time, or are killed."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeVar

from holdfast.errors import QueryTimedOut
from holdfast.serve.workers.fork_server import MEMORY, PID
from holdfast.serve.workers.messages import Answer, Call, too_large
from holdfast.tasks.aggregates.user import loaded_files

__all__ = ["Interrupt", "Worker", "Workers"]

T = TypeVar("T")
_FORKS_LOCK = threading.Lock()
# Libraries that take address space for threads and memory to come would be refused it.
_FRUGAL = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class _Forks:
    """The fork server of this process; begun with the first worker, begun anew if it has died."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "holdfast.serve.workers.fork_server", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **_FRUGAL},
                start_new_session=True,  # a Ctrl-C is the server's
            )
        self._control = ours
        self._lock = threading.Lock()

    def fork(self, memory: int) -> tuple[int, socket.socket]:
        """A new worker's pidfd, and the socket it answers on."""
        ours, theirs = socket.socketpair()
        with theirs, contextlib.ExitStack() as failing:
            failing.callback(ours.close)
            with self._lock:
                socket.send_fds(self._control, [MEMORY.pack(memory)], [theirs.fileno()])
                reply = self._control.recv(PID.size, socket.MSG_WAITALL)
                if len(reply) < PID.size:
                    raise ConnectionError("the fork server has ended")
                # It takes leave of no worker before it is asked again: the pid is this one's.
                process = os.pidfd_open(PID.unpack(reply)[0])
            failing.pop_all()
        return process, ours

    def close(self) -> None:
        """Ends it with all its workers."""
        self._control.close()
        self._process.wait()


_FORKS: list[_Forks] = []  # at most one


@atexit.register
def _close() -> None:
    while _FORKS:
        _FORKS.pop().close()


def _forked(memory: int) -> Worker:
    with _FORKS_LOCK:
        if not _FORKS:
            _FORKS.append(_Forks())
        try:
            return Worker(_FORKS[0], memory)
        except OSError:
            _FORKS.pop().close()
            _FORKS.append(_Forks())
            return Worker(_FORKS[0], memory)


class Worker:
    """One process, which takes one call at a time."""

    def __init__(self, forks: _Forks, memory: int) -> None:
        self._memory = memory
        self._process, answers = forks.fork(memory)
        self._connection: Connection[Call, Answer] = Connection(answers.detach())
        self._killed = threading.Event()
        self._ready = False

    def ask(self, call: Call, timeout_s: float) -> Answer:
        """Its answer; without one in time it is killed.

        Raises:
            QueryTimedOut: it was killed.
            QueryTooLarge: it has died.
        """
        try:
            self._wait_ready()
            self._connection.send(call)
            if not self._connection.poll(timeout_s):
                self.kill()
            return self._connection.recv()
        except (EOFError, OSError):
            if self._killed.is_set():
                raise QueryTimedOut(
                    "the query was ended: its time was over, or nobody waits for it any more",
                    action="ask for less in one statement, or allow more time "
                    "(serve.query.planning.timeout.ms, serve.query.timeout.ms).",
                ) from None
            raise too_large(self._memory) from None

    def kill(self) -> None:
        """Ends it; may be called from another thread."""
        self._killed.set()
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._process, signal.SIGKILL)

    def _wait_ready(self) -> None:
        if not self._ready:
            self._connection.recv()
            self._ready = True

    @property
    def usable(self) -> bool:
        """Whether it takes a call; what is idle says nothing, unless it is ready or has ended."""
        try:
            if not self._ready and self._connection.poll(0):
                self._wait_ready()
            return not self._killed.is_set() and not self._connection.poll(0)
        except (EOFError, OSError):
            return False

    def close(self) -> None:
        """Lets it end by itself."""
        self._connection.close()
        os.close(self._process)


class Interrupt:
    """Ends what a thread has a worker do, from another thread."""

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._lock = threading.Lock()  # the worker's next call must not be hit
        self._asked = False

    def begin(self, worker: Worker) -> None:
        """From now on this worker works for it.

        Raises:
            QueryTimedOut: nobody waits for it any more.
        """
        with self._lock:
            if self._asked:
                raise QueryTimedOut("the query had ended before it was computed")
            self._worker = worker

    def end(self) -> None:
        """It has answered, or died."""
        with self._lock:
            self._worker = None

    def ask(self) -> None:
        """Kills the worker that is at it; what has not begun does not begin."""
        with self._lock:
            self._asked = True
            if self._worker is not None:
                self._worker.kill()


class Workers:
    """Idle workers, and calls of functions in them.

    Args:
        count: of idle workers that are kept.
        memory: bytes that one may take beyond what it begins with.
        timeout_s: no call takes longer.
    """

    def __init__(self, count: int, memory: int, timeout_s: float) -> None:
        self._count = count
        self._memory = memory
        self._timeout_s = timeout_s
        self._idle: list[Worker] = []
        self._lock = threading.Lock()
        self._closed = False

    def prepare(self) -> None:
        """Begins the workers that are kept, so that no query waits for them."""
        for worker in [_forked(self._memory) for _ in range(self._count)]:
            self._put(worker)

    def call(
        self,
        function: Callable[..., T],
        *args: object,
        interrupt: Interrupt | None = None,
        timeout_s: float | None = None,
    ) -> T:
        """What a function of a module gives in a worker; the thread waits for it.

        Raises:
            QueryTimedOut: not in time, or the interrupt was asked for.
            QueryTooLarge: it needs more memory than a worker has.
            Exception: what the function raises.
        """
        call = Call(function, args, loaded_files())
        allowed = min(self._timeout_s, self._timeout_s if timeout_s is None else timeout_s)
        answer = self._answered(call, interrupt or Interrupt(), allowed)
        if answer.error is not None:
            raise answer.error
        made: T = answer.made
        return made

    def _answered(self, call: Call, interrupt: Interrupt, timeout_s: float) -> Answer:
        worker = self._take()
        answer = Answer()
        try:
            interrupt.begin(worker)
            answer.last = True
            answer = worker.ask(call, timeout_s)
            return answer
        finally:
            interrupt.end()
            if answer.last:
                worker.kill()
                worker.close()
                worker = _forked(self._memory)  # before the next call waits for it
            self._put(worker)

    def _take(self) -> Worker:
        while True:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            if worker is None:
                return _forked(self._memory)
            if worker.usable:
                return worker
            worker.close()

    def _put(self, worker: Worker) -> None:
        with self._lock:
            if worker.usable and not self._closed and len(self._idle) < self._count:
                self._idle.append(worker)
                return
        worker.close()

    def close(self) -> None:
        """Lets idle workers end; one that is at work ends after its call."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()
