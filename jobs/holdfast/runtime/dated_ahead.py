"""Warns of a sink that refuses event times of its query: brokers limit how far ahead they may be.

One such record stops the query that writes it.  Sinks that Holdfast creates accept every time; a
sink that existed before may have the brokers' default, an hour since Kafka 4.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress

from holdfast.errors import HoldfastError, Refused
from holdfast.transport.cluster.admin import Admin
from holdfast.types.statements.topology import Query

__all__ = ["any_time", "warn_dated_ahead"]

_LOG = logging.getLogger(__name__)
_SETTING = "message.timestamp.after.max.ms"  # brokers before Kafka 3.6 have none, and no limit
_TYPE, _BY_BROKER = "message.timestamp.type", "LogAppendTime"  # the broker dates records then
_FOREVER_MS = (1 << 63) - 1


def any_time(admin: Admin, sources: Iterable[str]) -> Mapping[str, str]:
    """Settings of a topic that accepts every time; none where brokers know no limit.

    Args:
        sources: existing topics, whose settings show whether brokers know the limit.
    """
    for topic in sources:
        with suppress(Refused):
            return {_SETTING: str(_FOREVER_MS)} if _SETTING in admin.config(topic) else {}
    return {}


def warn_dated_ahead(admin: Admin, query: Query, servers: str) -> None:
    """Warn of an existing sink that would refuse times which its sources may hold.

    Without the right to read topic settings there is no warning: the job runs without that right.
    """
    with suppress(Refused):  # or a topic is missing, and will be created with the right settings
        sink = query.sink.topic
        config = admin.config(sink)
        if config.get(_TYPE) == _BY_BROKER:
            return
        taken_ms = _limit_ms(config)
        held_ms, why = _held(admin, query)
        if taken_ms < held_ms:
            _LOG.warning("%s", _refused_ahead(sink, taken_ms, why, servers))


def _held(admin: Admin, query: Query) -> tuple[int, str]:
    """How far ahead the query's results may be dated, and why."""
    by_column = [r.name for r in (*query.sources, query.sink) if r.timestamp is not None]
    if by_column:
        return _FOREVER_MS, f"{by_column[0]} has its times from a column"
    configs = {source.topic: admin.config(source.topic) for source in query.sources}
    limits = {t: 0 if c.get(_TYPE) == _BY_BROKER else _limit_ms(c) for t, c in configs.items()}
    topic = max(limits, key=lambda t: limits[t])
    return limits[topic], f"the source topic {topic} takes them up to {limits[topic]} ms"


def _limit_ms(config: Mapping[str, str]) -> int:
    return int(config.get(_SETTING, _FOREVER_MS))


def _refused_ahead(sink: str, taken_ms: int, why: str, servers: str) -> HoldfastError:
    return HoldfastError(
        f"The sink topic {sink} refuses records dated more than {taken_ms} ms after its brokers' "
        f"clock ({_SETTING}), and {why}: one such record would stop the query.",
        cause="the topic was not made by Holdfast, or by a version that left the brokers' default",
        action=f"let it take every time: `kafka-configs.sh --bootstrap-server {servers} --alter "
        f"--entity-type topics --entity-name {sink} --add-config {_SETTING}={_FOREVER_MS}`",
    )
