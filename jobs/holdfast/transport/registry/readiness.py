"""Whether a registry that denies something has read all its schemas.

Apicurio answers before it has, and denies those to come.  Confluent's registry answers only after
it, and has no such page.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from http import HTTPStatus
from ssl import SSLContext, create_default_context
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from holdfast.types.columns.schemas import READY_PAGE

if TYPE_CHECKING:
    from httpx import Client

__all__ = ["Readiness"]

_TIMEOUT_S = 5.0


class Readiness:
    """Asks every server of a registry, without credentials."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Sends nothing; the properties are those of `open_registry`."""
        self._pages = [urljoin(url.strip(), READY_PAGE) for url in properties["url"].split(",")]
        self._properties = properties

    def still_reads(self) -> bool:
        """Whether a server says that it is not ready; one that says nothing is."""
        return any(map(self._not_ready, self._pages))

    def _not_ready(self, page: str) -> bool:
        import httpx

        away = suppress(httpx.HTTPError, httpx.InvalidURL, OSError)
        with away, self._client.stream("GET", page) as answer:  # a body may have no end
            return answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE
        return False

    @cached_property
    def _client(self) -> Client:
        import httpx

        return httpx.Client(verify=_trust(self._properties), timeout=_TIMEOUT_S)

    def close(self) -> None:
        """Closes the connections."""
        if "_client" in vars(self):
            self._client.close()


def _trust(properties: Mapping[str, str]) -> SSLContext:
    import httpx

    ca, own = properties.get("ssl.ca.location"), properties.get("ssl.certificate.location")
    made = create_default_context(cafile=ca) if ca else httpx.create_ssl_context()
    if own:
        key = properties.get("ssl.key.location")
        made.load_cert_chain(own, key, properties.get("ssl.key.password"))
    return made
