"""Clients of a query server, as its file of tokens has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.serve.http.guard.access import token_hash

__all__ = ["bearer", "entry", "tokens_file"]


def entry(name: str, token: str, read: list[str], **more: Any) -> str:
    """One client."""
    values = {"name": name, "token_sha256": token_hash(token), "read": read, **more}
    return "[[client]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in values.items())


def tokens_file(home: Path, **read: list[str]) -> Path:
    """A file of clients by name; the token of `all` is `t-all`."""
    path = home / "tokens.toml"
    path.write_text("".join(entry(name, f"t-{name}", tables) for name, tables in read.items()))
    return path


def bearer(token: str) -> dict[str, str]:
    """The header with a token."""
    return {"authorization": f"Bearer {token}"}
