from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.deploy.local.logs import DeploymentsOfHome, end_of
from holdfast.errors import Refused


@pytest.mark.parametrize(
    ("most", "shown"),
    [
        (100, "one\ntwo\nthree\n"),
        (11, "two\nthree\n"),
        (10, "two\nthree\n"),
        (9, "three\n"),
        (3, "ee\n"),
    ],
)
def test_the_end_of_a_log_begins_with_a_whole_line(tmp_path: Path, most: int, shown: str) -> None:
    path = tmp_path / "driver.log"
    path.write_text("one\ntwo\nthree\n")
    assert end_of(path, most) == shown


def test_a_log_is_one_of_a_deployment(tmp_path: Path) -> None:
    home = DeploymentsOfHome(tmp_path)
    assert home.all() == []
    for name in ("../../etc", "movies"):
        with pytest.raises(Refused):
            home.log(name, 100)
