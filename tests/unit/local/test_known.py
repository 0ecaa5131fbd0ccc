"""Addresses that this machine knows: no broker is asked."""

from __future__ import annotations

import pytest

from holdfast.local.probe import is_known


@pytest.mark.parametrize(
    "servers",
    [
        "127.0.0.1:1",
        "no.invalid:9092, localhost:9",
        "[::1]:9",
        "localhost",
        "SASL_SSL://localhost:9",
    ],
)
def test_one_known_address_is_enough(servers: str) -> None:
    assert is_known(servers)


@pytest.mark.parametrize(
    "servers", ["a.invalid:1", "a.invalid:1,b.invalid:2", f"{'x' * 99}:9", "", "[::1"]
)
def test_names_of_elsewhere_are_not_known(servers: str) -> None:
    assert not is_known(servers)
