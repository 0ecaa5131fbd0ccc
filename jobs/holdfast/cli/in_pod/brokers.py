"""`python -m holdfast.cli.in_pod.brokers FILE`: prints the brokers' addresses, as seen by a pod.

Chaos runs it in the pod that it cuts off: advertised ports differ from bootstrap ports.  FILE is
the job's YAML file of properties; prints a line per broker.
"""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast.cli.statements.options import load_settings
from holdfast.transport.cluster.view import ClusterView

__all__ = ["main"]

_TIMEOUT_S = 5.0


def main(properties: Path) -> None:
    """Prints host and port of every broker.

    Raises:
        KafkaUnavailable: no broker answered in time.
    """
    settings = load_settings(properties, (), None)
    for address in ClusterView(settings.client(), _TIMEOUT_S).brokers():
        print(address)  # noqa: T201 - chaos reads it


if __name__ == "__main__":
    main(Path(sys.argv[1]))
