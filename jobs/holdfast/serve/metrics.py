"""Prometheus metrics of a query server's standbys and peers, limited to readable tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, make_asgi_app
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from holdfast.serve.contract import Cluster, Member, MemberState, PartitionState
from holdfast.serve.http.app import CLIENT
from holdfast.serve.http.guard.access import ANYONE, Client
from holdfast.serve.http.request import App, Receive, Scope, Send

__all__ = ["metrics_app"]

_PARTITION = ["table", "partition"]
_GAUGES: dict[str, tuple[str, Callable[[PartitionState], float]]] = {
    "position": ("Next changelog offset to apply", lambda s: s.position),
    "lag": ("Changelog offsets not applied yet", lambda s: s.lag),
    "rows": ("Rows of the store, -1 while it is being restored", lambda s: s.rows),
    "bytes": ("Bytes of the store on its volume", lambda s: s.bytes),
    "restoring": ("1 while the store is being restored", lambda s: s.restoring),
    "failed": ("1 while the changelog cannot be followed", lambda s: s.error is not None),
    "undecodable": (
        "Undecodable records of the topic skipped since the server started",
        lambda s: s.undecodable,
    ),
    "checked_seconds": ("When the changelog's end was last seen", lambda s: s.checked_ms / 1000),
}


class _Standbys(Collector):
    """Collects metrics on request."""

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self._cluster = cluster
        self._client = client

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One family per number, with a sample per partition or server."""
        members = self._cluster.members()
        mine = next(m for m in members if m.server_id == self._cluster.me)
        for name, (text, value) in _GAUGES.items():
            yield self._family(name, text, value, mine)
        up = GaugeMetricFamily("holdfast_serve_peer_up", "1: the server answers", labels=["server"])
        for member in members:
            up.add_metric([member.server_id], member.state is not MemberState.GONE)
        yield up

    def _family(
        self, name: str, text: str, value: Callable[[PartitionState], float], member: Member
    ) -> GaugeMetricFamily:
        family = GaugeMetricFamily(f"holdfast_serve_store_{name}", text, labels=_PARTITION)
        for held in member.shown:
            if self._client.may_read(held.table):
                family.add_metric([held.table, str(held.partition)], value(held.state))
        return family


def metrics_app(cluster: Cluster, *more: Collector) -> App:
    """The ASGI application that serves these metrics, and `more`."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        registry = CollectorRegistry()
        for collector in (_Standbys(cluster, scope.get(CLIENT, ANYONE)), *more):
            registry.register(collector)
        await make_asgi_app(registry)(scope, receive, send)

    return app
