"""A verified run's report as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.compaction.runs import REPORT_PAGE, REPORT_PLOT, write_file
from holdfast.compaction.verify.history import Line
from holdfast.compaction.verify.verified import Verified
from holdfast.errors import Refused

__all__ = ["write_report"]


def write_report(folder: Path, verified: Verified, history: Sequence[Line]) -> Path:
    """Writes `report.html` and `report.png`; returns the page's path.

    Args:
        history: of all runs, this one among them.

    Raises:
        Refused: matplotlib is not installed.
    """
    try:
        from holdfast.compaction.verify.report_page import headline, page
        from holdfast.compaction.verify.report_plots import write_png
    except ImportError as error:
        raise Refused(
            f"The report needs a package that is not installed: {error.name}.",
            action="pip install 'holdfast[chaos]'; all numbers are in verified.json all the same",
        ) from error
    write_file(folder / REPORT_PAGE, page(verified, history).encode())
    write_png(verified, headline(verified), folder / REPORT_PLOT)
    return folder / REPORT_PAGE
