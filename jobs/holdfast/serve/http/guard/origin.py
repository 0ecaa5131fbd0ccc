"""Refuses requests that a web page of another site makes through an authorised user's browser.

A page cannot forge Host, Origin and Sec-Fetch-Site: browsers set them.  Clients other than browsers
send neither of the last two.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit

from holdfast.errors import BadRequest
from holdfast.serve.http.request import Request

__all__ = ["Origins"]

# Pages without data: a link on another site may lead to them.
_PAGES = frozenset({"/", "/console", "/console/"})
_OWN = ("", "none", "same-origin")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Origins:
    """Owns the rule that every request must pass before it is handled.

    Args:
        local_only: the server listens on loopback only and has no other names.
    """

    def __init__(self, *, local_only: bool) -> None:
        self._local_only = local_only

    def check(self, request: Request) -> None:
        """Check that no page of another site can have sent the request.

        Raises:
            BadRequest: 403, one can.
        """
        hosts = list(dict.fromkeys(request.headers(b"host")))
        if len(hosts) > 1 or (self._local_only and not all(map(_is_local, hosts))):
            raise BadRequest(
                "this server listens on loopback only, and the request's Host is another name."
                if len(hosts) == 1
                else f"the request has {len(hosts)} Host headers.",
                status=403,
                cause="DNS rebinding by a web page, or a proxy in front.",
                action="use localhost or 127.0.0.1; behind a proxy give it tokens (--tokens).",
            )
        own = hosts[0] if hosts else ""
        foreign = [o for o in request.headers(b"origin") if not _is_of(o, own)]
        sites = request.headers(b"sec-fetch-site")
        if foreign or not (all(site in _OWN for site in sites) or _leads_to_page(request)):
            raise BadRequest(
                "the request comes from a web page of another site.",
                status=403,
                cause=f"its Origin is {foreign[0][:100]!r}, its Host is {own[:100]!r}."
                if foreign
                else f"its Sec-Fetch-Site is {', '.join(sites)[:100]!r}.",
                action="ask from this server's own pages, or with a client other than a browser; a "
                "proxy in front has to leave the Host header as it is.",
            )


def _leads_to_page(request: Request) -> bool:
    """Whether the request follows a link to a page that holds no data."""
    fetched = [request.header(b"sec-fetch-mode"), request.header(b"sec-fetch-dest")]
    method, path = request.scope.get("method"), request.scope["path"]
    return method in ("GET", "HEAD") and path in _PAGES and fetched == ["navigate", "document"]


@lru_cache(maxsize=256)
def _is_local(host: str) -> bool:
    """Whether a Host is this machine; an empty one is not a browser's and passes."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return not host or name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_of(origin: str, host: str) -> bool:
    """Whether an Origin matches a Host."""
    scheme, found, name = origin.lower().partition("://")
    default = _DEFAULT_PORTS.get(scheme, "")
    return bool(found and default) and name.removesuffix(default) == host.lower().removesuffix(
        default
    )
