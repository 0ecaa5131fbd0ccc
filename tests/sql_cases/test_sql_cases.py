"""Every file of cases below this folder, as `holdfast test` runs it.

Each query processes its records in one batch, and then in as many batches as records.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.testing.files import cases_at
from holdfast.testing.report import as_text
from holdfast.testing.run import Outcome, Runner

HERE = Path(__file__).parent
FILES = sorted([*HERE.rglob("*.json"), *HERE.rglob("*.sql")])


def _has_records(path: Path) -> bool:
    """Whether a case of the file may have something to cut into batches."""
    text = path.read_text(encoding="utf-8")
    return '"inputs"' in text or "INSERT" in text.upper()


def _runs() -> Iterator[object]:
    for path in FILES:
        name = str(path.relative_to(HERE))
        yield pytest.param(path, Runner(), id=f"one batch-{name}")
        if _has_records(path):
            yield pytest.param(path, Runner(batch_records=1), id=f"record by record-{name}")


@pytest.mark.parametrize(("path", "runner"), list(_runs()))
def test_cases_of_file(path: Path, runner: Runner) -> None:
    results = list(runner.run(list(cases_at(path))))
    assert results
    bad = [as_text(result) for result in results if result.outcome is not Outcome.PASSED]
    assert bad == []
    unlike = [f"{r.case.name}: {r.reason}" for r in results if r.words is False]
    assert unlike == []
