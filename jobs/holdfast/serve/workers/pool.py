"""The server's side of workers: calls that end in time or are killed."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeVar, TypeVarTuple

from holdfast.config.commands import module_command
from holdfast.errors import QueryTimedOut
from holdfast.serve.workers.fork_server import MEMORY, PID
from holdfast.serve.workers.messages import Answer, Call, too_large
from holdfast.tasks.aggregates.user import loaded_files

__all__ = ["Interrupt", "Worker", "Workers"]

T = TypeVar("T")
Args = TypeVarTuple("Args")
_FORKS_LOCK = threading.Lock()
# Libraries that reserve address space for threads and memory would hit the limit.
_FRUGAL = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class _Forks:
    """This process's fork server; started with the first worker, restarted if it has died."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                module_command("holdfast.serve.workers.fork_server", str(theirs.fileno())),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **_FRUGAL},
                start_new_session=True,  # a Ctrl-C is for the server only
            )
        self._control = ours
        self._lock = threading.Lock()

    def fork(self, memory: int) -> tuple[int, socket.socket]:
        """Fork a worker; returns its pidfd and its socket."""
        ours, theirs = socket.socketpair()
        with theirs, contextlib.ExitStack() as failing:
            failing.callback(ours.close)
            with self._lock:
                socket.send_fds(self._control, [MEMORY.pack(memory)], [theirs.fileno()])
                reply = self._control.recv(PID.size, socket.MSG_WAITALL)
                if len(reply) < PID.size:
                    raise ConnectionError("the fork server has ended")
                # It reaps workers only at the next request, so the pid is still this worker's.
                process = os.pidfd_open(PID.unpack(reply)[0])
            failing.pop_all()
        return process, ours

    def close(self) -> None:
        """End the fork server and all its workers."""
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
    """One process, which handles one call at a time."""

    def __init__(self, forks: _Forks, memory: int) -> None:
        self._memory = memory
        self._process, answers = forks.fork(memory)
        self._connection: Connection[Call, Answer] = Connection(answers.detach())
        self._killed = threading.Event()
        self._ready = False

    def ask(self, call: Call, timeout_s: float) -> Answer:
        """The answer to a call; the worker is killed if it takes too long.

        Raises:
            QueryTimedOut: the worker was killed.
            QueryTooLarge: the worker has died.
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
                    "the query was killed: it exceeded its time limit, or the client disconnected",
                    action="split the statement, or allow more time "
                    "(serve.query.planning.timeout.ms, serve.query.timeout.ms).",
                ) from None
            raise too_large(self._memory) from None

    def kill(self) -> None:
        """Kill the worker; may be called from another thread."""
        self._killed.set()
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._process, signal.SIGKILL)

    def _wait_ready(self) -> None:
        if not self._ready:
            self._connection.recv()
            self._ready = True

    @property
    def usable(self) -> bool:
        """Whether the worker can take a call; an idle one sends nothing unless it is ready or
        ended.
        """
        try:
            if not self._ready and self._connection.poll(0):
                self._wait_ready()
            return not self._killed.is_set() and not self._connection.poll(0)
        except (EOFError, OSError):
            return False

    def close(self) -> None:
        """Close the socket, which ends the worker."""
        self._connection.close()
        os.close(self._process)


class Interrupt:
    """Kills a thread's worker from another thread."""

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._lock = threading.Lock()  # so that the kill does not hit the worker's next call
        self._asked = False

    def begin(self, worker: Worker) -> None:
        """Register the worker that has begun.

        Raises:
            QueryTimedOut: the interrupt was requested before.
        """
        with self._lock:
            if self._asked:
                raise QueryTimedOut("the query had ended before it was computed")
            self._worker = worker

    def end(self) -> None:
        """Unregister the worker: it has answered, or died."""
        with self._lock:
            self._worker = None

    def ask(self) -> None:
        """Kill the registered worker, and prevent further calls."""
        with self._lock:
            self._asked = True
            if self._worker is not None:
                self._worker.kill()


class Workers:
    """Idle workers, and calls of functions in them.

    Args:
        count: number of idle workers that are kept.
        memory: bytes that a worker may allocate beyond its initial size.
        timeout_s: limit of a call.
    """

    def __init__(self, count: int, memory: int, timeout_s: float) -> None:
        self._count = count
        self._memory = memory
        self._timeout_s = timeout_s
        self._idle: list[Worker] = []
        self._lock = threading.Lock()
        self._closed = False

    def prepare(self) -> None:
        """Start the workers that are kept, so that no query waits for them."""
        for worker in [_forked(self._memory) for _ in range(self._count)]:
            self._put(worker)

    def call(
        self,
        function: Callable[[*Args], T],
        *args: *Args,
        interrupt: Interrupt | None = None,
        timeout_s: float | None = None,
    ) -> T:
        """The result of a module's function in a worker; blocks the thread.

        Raises:
            QueryTimedOut: the time is over, or the interrupt was requested.
            QueryTooLarge: the function needs more memory than a worker has.
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
                worker = _forked(self._memory)  # replace it before the next call needs it
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
        """End idle workers; a busy one ends after its call."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()
