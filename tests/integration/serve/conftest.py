"""A browser for tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.browser import Chromium, find_chromium


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A browser without a window; the test is skipped where there is none."""
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium on the PATH, and CHROMIUM names none")
    browser = Chromium(path, tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.stop()
