"""Users' functions and aggregates as functions of DuckDB; a process of their own computes them."""

from __future__ import annotations

import atexit
import multiprocessing
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import duckdb
import pyarrow as pa

from holdfast.judge.statement.user_worker import Declared, serve
from holdfast.judge.values import Untranslatable
from holdfast.types.columns.schema import Base, SqlType

__all__ = ["called", "declare", "failed", "register", "result_of"]

_ANSWER_S = 60.0  # for all groups of a statement; a function that hangs must not hang the judge
_TYPES = {
    Base.BOOLEAN: "BOOLEAN",
    Base.INTEGER: "BIGINT",
    Base.BIGINT: "BIGINT",
    Base.DOUBLE: "DOUBLE",
    Base.STRING: "VARCHAR",
    Base.BYTES: "BLOB",
    Base.DATE: "DATE",
    Base.TIMESTAMP: "TIMESTAMP",
}
_KNOWN = {*_TYPES, Base.DECIMAL}


@dataclass
class _Worker:
    """The process of one set of files, and what these declare.

    DuckDB asks in several threads; one at a time has the pipe.
    """

    files: tuple[str, ...]
    process: BaseProcess
    pipe: Connection
    declared: dict[str, Declared] = field(default_factory=dict)
    failure: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, name: str, asked: Sequence[tuple[object, ...]]) -> list[object]:
        """The values of groups or rows.

        Raises:
            Untranslatable: the function raised, or took too long.
        """
        with self.lock:
            return self._asked(name, asked)

    def _asked(self, name: str, asked: Sequence[tuple[object, ...]]) -> list[object]:
        try:
            self.pipe.send((name, asked))
            if self.pipe.poll(_ANSWER_S):
                answer = self.pipe.recv()
            else:
                self.end()
                answer = f"{name} took longer than {_ANSWER_S:.0f} s"
        except (EOFError, OSError):  # it ends by itself, or was ended for another thread's call
            answer = f"the process of {name} died"
        if isinstance(answer, str):
            self.fail(answer)
        found: list[object] = answer
        return found

    def fail(self, why: str) -> None:
        """Keep the reason, since DuckDB wraps what its functions raise.

        Raises:
            Untranslatable: always.
        """
        self.failure = why
        raise Untranslatable(why)

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()


_RUNNING: list[_Worker] = []  # at most one: that of the files declared last


def declare(files: Sequence[str]) -> None:
    """Load the users' files of the job to judge, in a process of their own; none: forget others.

    Raises:
        Untranslatable: a file cannot be loaded.
    """
    wanted = tuple(files)
    if _RUNNING and _RUNNING[0].files == wanted and _RUNNING[0].process.is_alive():
        return
    _end()
    if not wanted:
        return
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, wanted), daemon=True)
    process.start()
    theirs.close()
    worker = _Worker(wanted, process, ours)
    _RUNNING.append(worker)
    late = "the functions' files took too long to load"
    told: list[Declared] | str = ours.recv() if ours.poll(_ANSWER_S) else late
    if isinstance(told, str):
        worker.fail(told)
    else:
        worker.declared = {each.name: each for each in told}


@atexit.register
def _end() -> None:
    while _RUNNING:
        _RUNNING.pop().end()


def result_of(name: str) -> SqlType | None:
    """The type of a declared function's result; None: no file declares it."""
    found = _RUNNING[0].declared.get(name) if _RUNNING else None
    return None if found is None else found.returns


def called(name: str, values: Sequence[str], *, ordered: bool) -> str:
    """The call of a declared function, in DuckDB SQL; an aggregate's is over a group's records.

    Args:
        values: SQL of the arguments.
        ordered: whether the records have topic partitions and offsets.

    Raises:
        Untranslatable: the judge does not support it.
    """
    declared = _RUNNING[0].declared[name]
    if not declared.args or len(declared.args) != len(values):
        raise Untranslatable(f"{name} of {len(values)} arguments")
    _duckdb(name, declared.returns)
    pairs = zip(values, declared.args, strict=True)
    given = [f"CAST({value} AS {_duckdb(name, kind)})" for value, kind in pairs]
    record = f"struct_pack({', '.join(f'a{i} := {value}' for i, value in enumerate(given))})"
    if declared.scalar:
        if not declared.deterministic:
            raise Untranslatable(f"{name} is not declared with deterministic=True")
        return f"{_in_duckdb(name)}({record})"
    one, two = f"list({record})", f"list_reverse(list({record}))"
    if ordered:
        one, two = (f"list({record} ORDER BY __partition{d}, __offset)" for d in ("", " DESC"))
    return f"{_in_duckdb(name)}({one}, {two})"


def register(engine: duckdb.DuckDBPyConnection) -> None:
    """Register the declared functions that the judge supports."""
    for worker in _RUNNING:
        worker.failure = ""  # and not at each call: another thread's may have failed
        for declared in worker.declared.values():
            kinds = (*declared.args, declared.returns)
            if declared.args and all(kind.base in _KNOWN for kind in kinds):
                _register(engine, worker, declared)


def _register(engine: duckdb.DuckDBPyConnection, worker: _Worker, declared: Declared) -> None:
    name = declared.name
    fields = ", ".join(f"a{i} {_duckdb(name, kind)}" for i, kind in enumerate(declared.args))
    record = f"STRUCT({fields})"
    engine.create_function(
        _in_duckdb(name), (_scalar if declared.scalar else _aggregate)(worker, declared),
        [record] if declared.scalar else [f"{record}[]"] * 2,
        _duckdb(name, declared.returns), type="arrow", null_handling="special",
    )  # type: ignore[call-overload]  # fmt: skip


def _aggregate(
    worker: _Worker, declared: Declared
) -> Callable[[pa.ChunkedArray, pa.ChunkedArray], pa.Array]:
    def function(records: pa.ChunkedArray, others: pa.ChunkedArray) -> pa.Array:
        groups = list(zip(records.to_pylist(), others.to_pylist(), strict=True))
        return pa.array(worker.ask(declared.name, groups), _result(declared))

    return function


def _result(declared: Declared) -> pa.DataType:
    """The Arrow type in which DuckDB receives a function's values."""
    kind = declared.returns
    if kind.base is Base.TIMESTAMP:
        return pa.timestamp("us")
    # Whole numbers are computed in 64 bits, so that nothing overflows here.
    return pa.int64() if kind.base is Base.INTEGER else kind.arrow()


def _scalar(worker: _Worker, declared: Declared) -> Callable[[pa.ChunkedArray], pa.Array]:
    def function(records: pa.ChunkedArray) -> pa.Array:
        pairs = zip(records.combine_chunks().flatten(), declared.args, strict=True)
        rows = list(zip(*(_given(column, kind) for column, kind in pairs), strict=True))
        found = worker.ask(declared.name, rows)
        return pa.concat_arrays([_converted(value, declared) for value in found])

    return function


def _given(column: pa.Array, kind: SqlType) -> list[object]:
    """The values that a scalar function takes: dates as days, timestamps as milliseconds."""
    if kind.base is Base.DATE:
        column = column.cast(pa.int32())
    if kind.base is Base.TIMESTAMP:
        column = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    values: list[object] = column.to_pylist()
    return values


def _converted(value: object, declared: Declared) -> pa.Array:
    """A scalar function's value in its declared type; NULL if it is none of that type."""
    kind = declared.returns
    made = pa.timestamp("ms") if kind.base is Base.TIMESTAMP else kind.arrow()
    try:
        found = pa.array([value], made)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        found = pa.nulls(1, made)
    return found.cast(_result(declared))


def failed() -> str:
    """Why the last call of a function failed; empty if it did not."""
    return _RUNNING[0].failure if _RUNNING else ""


def _in_duckdb(name: str) -> str:
    return f"judge_user_{name.lower()}"


def _duckdb(name: str, kind: SqlType) -> str:
    if kind.base is Base.DECIMAL:
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if kind.base not in _TYPES:
        raise Untranslatable(f"{name} with a {kind}")
    return _TYPES[kind.base]
