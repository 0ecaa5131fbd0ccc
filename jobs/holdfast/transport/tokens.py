"""Requests an OAUTHBEARER token like librdkafka with `sasl.oauthbearer.method=oidc`.

For the one client that is not librdkafka (`log_dirs`): a request takes one token, so none has to
be renewed.
"""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping

from kafka.net.sasl.oauth import AbstractTokenProvider

from holdfast.errors import InvalidConfig, KafkaUnavailable, Refused

__all__ = ["TOKEN_PROPERTIES", "Token", "extensions_of", "token_of"]

_METHOD = "sasl.oauthbearer.method"
_URL = "sasl.oauthbearer.token.endpoint.url"
_ID, _SECRET = "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"
_SCOPE, _EXTENSIONS = "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions"
_CA = "https.ca.location"
TOKEN_PROPERTIES = frozenset({_METHOD, _URL, _ID, _SECRET, _SCOPE, _EXTENSIONS})
_TIMEOUT_S = 10.0


class Token(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no annotations
    """One token and its SASL extensions."""

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        super().__init__()
        self._token, self._extensions = token, dict(extensions)

    def token(self) -> str:
        return self._token

    def extensions(self) -> dict[str, str]:
        return self._extensions


def extensions_of(client: Mapping[str, str]) -> dict[str, str]:
    """The pairs of `sasl.oauthbearer.extensions`."""
    pairs = (pair.partition("=") for pair in client.get(_EXTENSIONS, "").split(",") if pair)
    return {name: value for name, _, value in pairs}


def token_of(client: Mapping[str, str]) -> str:
    """A token for the client, from its token endpoint.

    Raises:
        InvalidConfig: the properties name no endpoint, or a method other than oidc.
        Refused: the endpoint refuses the client's id and secret.
        KafkaUnavailable: the endpoint does not answer.
    """
    url = client.get(_URL, "")
    if client.get(_METHOD) != "oidc" or not url.startswith(("http://", "https://")):
        raise InvalidConfig(
            "The sizes of logs can only be requested with OAUTHBEARER by the method oidc.",
            action=f"set kafka.{_METHOD}=oidc and kafka.{_URL} to an http(s) address.",
        )
    try:
        with urllib.request.urlopen(  # noqa: S310 - the user's own address, http(s) only
            _request(url, client), timeout=_TIMEOUT_S, context=_trust(client)
        ) as answer:
            return str(json.load(answer)["access_token"])
    except urllib.error.HTTPError as error:
        error.close()
        raise Refused(
            f"{url} gives no token: status {error.code}.",
            cause=f"the endpoint does not know {client.get(_ID, '(no client id)')}, or its secret.",
            action=f"correct kafka.{_ID} and kafka.{_SECRET}.",
        ) from error
    except (OSError, ValueError, KeyError) as error:
        raise KafkaUnavailable(
            f"{url} gives no token: {error!r}.",
            cause="the token endpoint is down, or is another kind of server.",
            action=f"check kafka.{_URL}.",
        ) from error


def _request(url: str, client: Mapping[str, str]) -> urllib.request.Request:
    form = {"grant_type": "client_credentials"}
    if client.get(_SCOPE):
        form["scope"] = client[_SCOPE]
    who = f"{client.get(_ID, '')}:{client.get(_SECRET, '')}"
    headers = {
        "Authorization": f"Basic {base64.b64encode(who.encode()).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }
    body = urllib.parse.urlencode(form).encode()
    return urllib.request.Request(url, body, headers)  # noqa: S310 - see its caller


def _trust(client: Mapping[str, str]) -> ssl.SSLContext:
    location = client.get(_CA, "")
    return ssl.create_default_context(cafile=location if location not in ("", "probe") else None)
