from __future__ import annotations

import pytest

from holdfast.config.load import build_settings, from_overrides
from holdfast.errors import InvalidConfig
from holdfast.serve.http.request import Limits


def test_limits_of_a_server_come_from_its_settings() -> None:
    given = [
        "serve.query.timeout.ms=1500", "serve.max.open.queries=7", "serve.request.max.bytes=2048",
        "serve.slow.reader.timeout.ms=250", "serve.heartbeat.ms=500", "serve.query.max.rows=12",
    ]  # fmt: skip
    settings = build_settings([from_overrides(given)], "job").serve
    limits = Limits.of(settings, rate_per_s=2.5)
    assert (limits.timeout_s, limits.open_queries, limits.request_bytes) == (1.5, 7, 2048)
    assert (limits.send_s, limits.heartbeat_s, limits.rate_per_s) == (0.25, 0.5, 2.5)
    assert settings.rows_max == 12


def test_without_settings_they_are_the_same() -> None:
    assert Limits.of(build_settings([], "job").serve, 0.0) == Limits()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("serve.query.max.row=1", "did you mean serve.query.max.rows"),
        ("serve.query.timeout.ms=0", "1 to 3,600,000"),
        ("serve.query.threads=many", "no number"),
    ],
)
def test_what_is_no_limit_is_refused(given: str, told: str) -> None:
    with pytest.raises(InvalidConfig, match=told):
        build_settings([from_overrides([given])], "job")
