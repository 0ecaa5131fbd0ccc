"""Which settings are secret, where their values may come from, and how they are redacted.

A secret travels in a file or in the environment, never on a command line, which every user of the
machine can read.  The chart's schema and the DAGs' params refuse the same names; a test compares.
"""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.errors import InvalidConfig

__all__ = ["FILE", "HIDDEN_NAMES", "NOT_SHOWN", "from_file", "is_secret", "names_file", "redacted"]

# RE2 in the chart's schema reads it, too: no look-around.
HIDDEN_NAMES = r"passw|passphrase|secret|jaas|oauthbearer\.config|key\.pem|user\.info|auth\.token"
"""A pattern in the names of secret settings."""

FILE = ".file"
"""`<setting>.file` names a file that holds the value of a setting."""

NOT_SHOWN = "(not shown)"

# librdkafka's own settings that end in `.file`: they do not give another setting's value.
_KAFKAS_OWN = (
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.jwt.template.file",
)
_SECRET = re.compile(HIDDEN_NAMES)
_PATHS = (FILE, ".location")  # they say where a secret is and are not secret themselves


def is_secret(name: str) -> bool:
    """Whether the value of a setting of that name, with or without `kafka.`, is secret."""
    lower = name.lower()
    return _SECRET.search(lower) is not None and not lower.endswith(_PATHS)


def names_file(name: str) -> bool:
    """Whether it is `<setting>.file`, a path on this machine only."""
    return name.endswith(FILE) and not name.endswith(_KAFKAS_OWN)


def redacted(name: str, value: object) -> str:
    """The value of a setting in the form that everybody may see."""
    return NOT_SHOWN if is_secret(name) else str(value)


def from_file(name: str, path: Path) -> str:
    """Reads the value of the setting `name` from a file, without the newline at its end.

    Raises:
        InvalidConfig: the file cannot be read, or is empty.
    """
    try:
        found = path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise _unreadable(name, path, f"cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        # The exception would reveal the content.
        raise _unreadable(name, path, "is not UTF-8 text") from None
    if not found:
        raise _unreadable(name, path, "is empty")
    return found


def _unreadable(name: str, path: Path, why: str) -> InvalidConfig:
    return InvalidConfig(
        f"The file {path} for {name} {why}.",
        action=f"let {name}{FILE} name a file of the value alone, readable for this process.",
    )
