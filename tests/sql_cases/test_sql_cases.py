"""Every file of cases below this folder, as `holdfast test` runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.testing.files import cases_at
from holdfast.testing.report import as_text
from holdfast.testing.run import Outcome, Runner

HERE = Path(__file__).parent
FILES = sorted([*HERE.rglob("*.json"), *HERE.rglob("*.sql")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HERE)))
def test_cases_of_file(path: Path, runner: Runner) -> None:
    results = list(runner.run(list(cases_at(path))))
    assert results
    bad = [as_text(result) for result in results if result.outcome is not Outcome.PASSED]
    assert bad == []
    unlike = [f"{r.case.name}: {r.reason}" for r in results if r.words is False]
    assert unlike == []
