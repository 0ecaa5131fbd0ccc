"""Modules that are loaded when something of them is first used: each case in its own Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

STATEMENTS = """
CREATE STREAM s (k VARCHAR KEY, v BIGINT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT k, COUNT(*) AS n, SUM(v) AS total, AVG(v) AS mean, MAX(v) AS most
    FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k EMIT CHANGES;
"""


def run(code: str, *folders: Path) -> str:
    path = ", ".join(repr(str(folder)) for folder in folders)
    lines = [
        "import sys",
        f"sys.path[:0] = [{path}]",
        "from holdfast.lazy_imports import load_later",
        code,
    ]
    command = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Tells when it runs, and which of its modules does."""
    folder = tmp_path / "told"
    folder.mkdir()
    (folder / "__init__.py").write_text("print('told')\nfrom told.inner import DEEP\nTEN = 10\n")
    (folder / "inner.py").write_text("import told\nprint('inner')\nDEEP = 5\n")
    (folder / "other.py").write_text("import told as t\nprint('other')\nELEVEN = t.TEN + 1\n")
    (folder / "more.py").write_text("print('more')\n")
    return tmp_path


def test_an_import_loads_nothing_and_the_first_use_does(package: Path) -> None:
    code = """
load_later(["told", "told.other"])
import told
import told.other as other
import told.other
print("imported", told.__name__)
print(told.TEN, told.DEEP, told.TEN)
print(other.ELEVEN, other is told.other, sys.modules["told.other"] is other)
print(type(told) is type(sys), told.__path__ != [], told.__spec__.name, other.__package__)
"""
    said = ["imported told", "told", "inner", "10 5 10", "other", "11 True True"]
    assert run(code, package).splitlines() == [*said, "True True told told"]


@pytest.mark.parametrize(
    "use", ["from told import TEN", "import told.more", "import told.other as o; o.ELEVEN"]
)
def test_what_needs_the_package_loads_it_first(package: Path, use: str) -> None:
    code = f"load_later(['told', 'told.other'])\nimport told\nprint('imported')\n{use}"
    assert run(code, package).splitlines()[:3] == (
        ["imported", "other", "told"] if "other" in use else ["imported", "told", "inner"]
    )


def test_a_name_that_is_not_there_is_refused_as_ever(package: Path) -> None:
    code = """
load_later(["told"])
import told
for _ in range(2):
    try:
        told.nothing
    except AttributeError as error:
        print(error)
"""
    said = "module 'told' has no attribute 'nothing'"
    assert run(code, package).splitlines() == ["told", "inner", said, said]


def test_what_fails_while_it_is_loaded_fails_again(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import broken\nbroken.missing\n")
    code = """
load_later(["broken"])
import broken
for _ in range(2):
    try:
        broken.anything
    except AttributeError as error:
        print(error)
"""
    assert (
        run(code, tmp_path).splitlines() == ["module 'broken' has no attribute 'missing' yet"] * 2
    )


def test_threads_that_use_it_at_once_find_it_whole(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\nA = 1\ntime.sleep(0.3)\nB = 2\nprint('once')\n")
    code = """
from concurrent.futures import ThreadPoolExecutor
load_later(["slow"])
import slow
with ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(lambda _: slow.B, range(8))))
"""
    assert run(code, tmp_path).splitlines() == ["once", "16"]


def test_arrow_does_not_load_pandas_to_see_whether_values_are_its_series() -> None:
    code = """
import importlib.util
load_later()
import pyarrow as pa
pa.array([1, 2]), pa.array(["x"] * 3).to_pylist()
print(importlib.util.find_spec("pandas") is not None, "pandas" in sys.modules)
print(pa.array([1, None]).to_pandas().sum())
import pandas as pd
print(pa.array(pd.Series([1.0, float("nan")])).null_count)
"""
    assert run(code).splitlines() == ["True False", "1.0", "1"]


def test_pandas_that_was_loaded_before_arrow_is_known_to_it() -> None:
    code = """
load_later()
import pandas as pd
import pyarrow as pa
print(pa.array(pd.Series([1.0, float("nan")])).null_count)
"""
    assert run(code).splitlines() == ["1"]


def test_a_function_that_has_it_among_its_globals_can_be_sent(package: Path) -> None:
    code = """
from pyspark import cloudpickle
load_later(["told"])
import told
sent = cloudpickle.dumps(lambda: told.TEN)
print("sent")
print(cloudpickle.loads(sent)())
"""
    assert run(code, package).splitlines() == ["sent", "told", "inner", "10"]


def test_what_is_imported_already_or_not_installed_stays_as_it_is(package: Path) -> None:
    code = """
import told
load_later(["told", "told.other", "not_installed_anywhere"])
print(type(told) is type(sys), "told.other" in sys.modules, "not_installed_anywhere" in sys.modules)
"""
    assert run(code, package).splitlines() == ["told", "inner", "True False False"]


def test_arrow_and_numpy_are_what_they_are(tmp_path: Path) -> None:
    code = """
load_later()
import numpy as np, numpy.typing as npt, pyarrow as pa, pyarrow.compute as pc, pyarrow.json as pj
import io
table = pj.read_json(io.BytesIO(b'{"x": 3}'))
print(pc.sum(table["x"]), np.arange(3).tolist(), npt.NDArray is not None, pa.array([1]).to_numpy())
"""
    assert run(code).splitlines() == ["3 [0, 1, 2] True [1]"]


@pytest.mark.parametrize(
    "imports",
    [
        "holdfast.runtime.queries.batches.shuffled",
        "holdfast.cli.statements.run, holdfast.ingest.planner, holdfast.runtime.job",
    ],
)
def test_neither_a_worker_nor_a_driver_loads_arrow_before_the_first_batch(
    imports: str,
) -> None:
    code = f"""
load_later()
import {imports}
from holdfast.lazy_imports import ARROW_AND_NUMPY
from holdfast.sql import compile_text
from holdfast.tasks.pack.packing import added
from holdfast.tasks.processors.layout import layout_of
query = compile_text({STATEMENTS!r}).queries[0]
print(sorted(added(query, 0)), layout_of(query).windowed)
print([name for name in ARROW_AND_NUMPY if type(sys.modules[name]) is type(sys)])
print([name for name in ("pandas", "pyarrow.lib", "numpy._core") if name in sys.modules])
"""
    assert run(code).splitlines() == ["['__timestamp', '__tombstone'] True", "[]", "[]"]


@pytest.mark.parametrize(
    ("imports", "without"),
    [
        # What the tasks of batches are unpickled from.
        (
            "holdfast.runtime.queries.batches.shuffled, holdfast.tasks.state_task",
            "pydantic",
        ),
        ("holdfast.cli.statements.run, holdfast.runtime.job", "cryptography"),
    ],
)
def test_who_does_not_need_a_large_library_does_not_load_it(imports: str, without: str) -> None:
    code = f"import {imports}\nprint([name for name in sys.modules if name == {without!r}])"
    assert run(code).splitlines() == ["[]"]
