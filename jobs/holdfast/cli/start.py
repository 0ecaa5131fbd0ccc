"""The `holdfast` of an installation, which may be one for clients only."""

from __future__ import annotations

import sys

__all__ = ["main"]

_REFUSED = 2


def main() -> int:
    """Run the command line; without the engine's packages say how to get them."""
    try:
        from holdfast.cli.main import main as run
    except ModuleNotFoundError as missing:
        print(  # noqa: T201 - click, which prints everywhere else, may be what is missing
            f"Error: the command line needs the package {missing.name}, which is not installed.\n"
            "Cause: holdfast was installed for clients only.\n"
            "What to do: pip install 'holdfast[engine]'",
            file=sys.stderr,
        )
        return _REFUSED
    return run()
