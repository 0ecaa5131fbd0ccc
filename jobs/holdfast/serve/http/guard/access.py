"""Access control: bearer tokens, kept only as SHA-256, and patterns of readable tables.

The tokens' file is TOML; it is read again when it changes:

    [[client]]
    name = "dashboards"
    token_sha256 = "9f86d081884c7d65…"       # of the token: `holdfast token` makes both
    read = ["MOVIE_*", "SALES"]              # resolved names; * stands for any text

A client with `peer = true` is another query server and may use `/internal/`.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import re
import secrets
import time
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.errors import BadRequest, InvalidConfig, NotAllowed

__all__ = ["ANYONE", "Access", "Client", "check_readable", "new_token", "token_hash"]

_KEYS = {"name", "token_sha256", "read", "peer"}
_COOKIE = re.compile(r"(?:^|;\s*)holdfast_token=([^;\s]+)")


@dataclass(frozen=True)
class Client:
    """A client of the server.  `read`: patterns of the resolved names of readable tables."""

    name: str
    read: tuple[str, ...] = ()
    peer: bool = False
    _known: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    def may_read(self, table: str) -> bool:
        """Whether one of the patterns matches the table."""
        known = self._known.get(table)
        if known is None:
            known = any(fnmatch.fnmatchcase(table, pattern) for pattern in self.read)
            if len(self._known) < 10_000:  # callers choose the names
                self._known[table] = known
        return known

    @property
    def reads_all(self) -> bool:
        """Whether the client may read every table, present and future."""
        return "*" in self.read


ANYONE = Client("anonymous", ("*",))


def check_readable(table: str, client: Client) -> None:
    """Check that the client may read the table of this resolved name.

    Raises:
        NotAllowed: it may not.
    """
    if not client.may_read(table):
        raise NotAllowed(
            f"{client.name} may not read {table}.",
            action="ask the administrator of the server's tokens.",
        )


def token_hash(token: str) -> str:
    """The hash of a token in the file.  Tokens are random, so one round of SHA-256 suffices."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def new_token() -> str:
    """256 random bits as text."""
    return f"hf_{secrets.token_urlsafe(32)}"


class Access:
    """Owns the clients of the tokens' file; without a file every client is `ANYONE`.

    Raises:
        InvalidConfig: the file is malformed.
    """

    def __init__(
        self, tokens: Path | None = None, peer_token: str = "", *, look_again_s: float = 1.0
    ) -> None:
        self._path = tokens
        self._look_again_s = look_again_s
        self._peer = token_hash(peer_token) if peer_token else ""
        self._stamp: tuple[int, int] | None = None
        self._looked_s = 0.0
        self._clients: dict[str, Client] = {}
        if tokens is not None:
            self._read(tokens)

    @property
    def open(self) -> bool:
        """Whether requests need no token."""
        return self._path is None

    def client(self, headers: Iterable[tuple[bytes, bytes]]) -> Client:
        """The client whose token the headers carry.

        Raises:
            BadRequest: 401, there is no token or it is unknown.
        """
        if self._path is None:
            return ANYONE
        token = _token(headers)
        if not token:
            raise _unknown("the request carries no token.")
        self._refresh(self._path)
        found = self._clients.get(token_hash(token))
        if found is None:
            raise _unknown("the request's token is not known here.")
        return found

    def peer(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether the request comes from another query server, according to its token."""
        token = _token(headers)
        if not token:
            return False
        if self._path is not None:
            self._refresh(self._path)
        hashed = token_hash(token)
        known = self._clients.get(hashed)
        return hmac.compare_digest(hashed, self._peer) or bool(known and known.peer)

    def _refresh(self, path: Path) -> None:
        now = time.monotonic()
        if now - self._looked_s < self._look_again_s:
            return
        self._looked_s = now
        try:
            stat = path.stat()
            if (stat.st_mtime_ns, stat.st_ino) != self._stamp:
                self._read(path)
        except (OSError, InvalidConfig):
            return  # half written, or gone for a moment: the known clients stay

    def _read(self, path: Path) -> None:
        try:
            stat = path.stat()
            found = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidConfig(
                f"the file of tokens {path} cannot be read: {error}.",
                action="`holdfast token NAME --read 'TABLE*'` prints an entry.",
            ) from None
        self._clients = dict(_client(path, entry) for entry in found.get("client", []))
        self._stamp = (stat.st_mtime_ns, stat.st_ino)


def _client(path: Path, entry: Mapping[str, Any]) -> tuple[str, Client]:
    name, hashed, read = entry.get("name"), entry.get("token_sha256"), entry.get("read", [])
    wrong = (
        set(entry) - _KEYS
        or not isinstance(name, str)
        or not re.fullmatch(r"[0-9a-f]{64}", str(hashed))
        or not isinstance(read, list)
        or not all(isinstance(pattern, str) for pattern in read)
    )
    if wrong:
        raise InvalidConfig(
            f"the file of tokens {path} has an entry ({name!r}) that is malformed.",
            action="each [[client]] has `name`, `token_sha256` (64 hex digits), `read` (a list of "
            "patterns) and, for servers, `peer = true`; nothing else.",
        )
    return str(hashed), Client(str(name), tuple(read), peer=entry.get("peer") is True)


def _token(headers: Iterable[tuple[bytes, bytes]]) -> str:
    cookie = ""
    for key, value in headers:
        if key == b"authorization":
            return _from_header(value.decode("latin-1"))
        if key == b"cookie" and (found := _COOKIE.search(value.decode("latin-1"))):
            cookie = found[1]
    return cookie


def _from_header(value: str) -> str:
    scheme, _, rest = value.partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip()
    if scheme.lower() == "basic":  # ksqlDB's clients: a key, and the token as its secret
        try:
            return base64.b64decode(rest, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""


def _unknown(fact: str) -> BadRequest:
    return BadRequest(
        fact,
        status=401,
        action="give `holdfast query` the token with --token-file FILE; other clients send "
        "`Authorization: Bearer <token>` (or Basic, with the token as password). Who keeps the "
        "server makes tokens with `holdfast token`.",
    )
