"""ksqlDB's paths about the server itself: /info, /healthcheck, /clusterStatus and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from holdfast import __version__
from holdfast.errors import BadRequest
from holdfast.serve.contract import MemberState, PartitionState
from holdfast.serve.http.context import Context
from holdfast.serve.http.guard.access import Client
from holdfast.serve.http.openapi import openapi
from holdfast.serve.http.request import Request
from holdfast.types.freshness import heard_ms, silent_s

__all__ = ["KsqlAbout"]


class KsqlAbout:
    """Handlers that report on the cluster; owns nothing."""

    def __init__(self, context: Context) -> None:
        self._serving = context.serving

    async def info(self, request: Request, client: Client) -> None:
        """GET /info."""
        about = {
            "version": __version__,
            "kafkaClusterId": self._serving.settings.bootstrap_servers,
            "ksqlServiceId": self._serving.settings.application_id,
            "serverStatus": "RUNNING",
        }
        await request.json({"KsqlServerInfo": about})

    async def health(self, request: Request, client: Client) -> None:
        """GET /healthcheck: 200 when all stores of this server are restored, else 503.

        Rows are served while Kafka is silent, too, so the status stays 200 and probes keep the
        server; `isHealthy` is false then, and `kafka` tells how old the rows are.
        """
        me = self._serving.cluster.me
        mine = next((m for m in self._serving.cluster.members() if m.server_id == me), None)
        holdings = mine.holdings if mine else ()
        restoring = sum(h.state.restoring for h in holdings)
        ready = mine is not None and mine.state is MemberState.READY
        kafka = _kafka([h.state for h in holdings])
        details = {
            "metastore": {"isHealthy": True},
            "kafka": kafka,
            "stores": {"isHealthy": ready, "partitions": len(holdings), "restoring": restoring},
        }
        body = {
            "isHealthy": ready and kafka["isHealthy"],
            "details": details,
            "serverState": "READY" if ready else "STARTING",
        }
        await request.json(body, status=200 if ready else 503)

    async def cluster(self, request: Request, client: Client) -> None:
        """GET /clusterStatus."""
        status = {}
        for member in self._serving.cluster.members():
            lags: dict[str, Any] = {}
            for held in member.shown:
                if not client.may_read(held.table):
                    continue
                store = lags.setdefault(held.table, {"lagByPartition": {}})
                store["lagByPartition"][str(held.partition)] = {
                    "currentOffsetPosition": held.state.position,
                    "endOffsetPosition": held.state.end,
                    "offsetLag": held.state.lag,
                }
            status[_place(member.address)] = {
                "hostAlive": member.state is not MemberState.GONE,
                "lastStatusUpdateMs": member.seen_ms,
                "activeStandbyPerQuery": {},
                "hostStoreLags": {"stateStoreLags": lags, "updateTimeMs": member.seen_ms},
            }
        await request.json({"clusterStatus": status})

    async def status(self, request: Request, client: Client) -> None:
        """GET /status, of commands: a server that only reads has none."""
        if request.scope["path"] != "/status":
            raise BadRequest("no command has that id: query servers execute none.", status=404)
        await request.json({"commandStatuses": {}})

    async def metadata(self, request: Request, client: Client) -> None:
        """GET /v1/metadata and /v1/metadata/id."""
        settings = self._serving.settings
        clusters = {
            "kafka-cluster": settings.bootstrap_servers,
            "ksql-cluster": settings.application_id,
        }
        scope = {"id": "", "scope": {"path": [], "clusters": clusters}}
        if request.scope["path"].endswith("/id"):
            await request.json(scope)
            return
        await request.json({"version": __version__, "clusterId": scope})

    async def openapi(self, request: Request, client: Client) -> None:
        """GET /openapi.json."""
        await request.respond(openapi())

    async def valid_property(self, request: Request, client: Client) -> None:
        """GET /is_valid_property/NAME."""
        await request.json(True)


def _kafka(states: Sequence[PartitionState]) -> dict[str, Any]:
    """Healthy unless a changelog cannot be followed, or its end was last seen too long ago."""
    seen_ms = heard_ms(s.checked_ms for s in states if not s.restoring)
    silent = silent_s(seen_ms) > 0
    told: dict[str, Any] = {"isHealthy": all(s.error is None for s in states) and not silent}
    if silent:
        told["lastSeenMs"] = seen_ms
    return told


def _place(address: str) -> str:
    return urlsplit(address).netloc or address
