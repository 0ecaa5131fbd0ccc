from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.unit.serve.query.shop import Shop


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def goods(loop: asyncio.Runner) -> Shop:
    shop = Shop("GOODS")
    for number, name in enumerate(["ant", "bee", "cat", "dog", "eel", "fly"]):
        shop.put(name.encode(), n=number, price=number / 2, tag="even" if number % 2 == 0 else None)
    return shop
