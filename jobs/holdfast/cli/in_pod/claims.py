"""`python -m holdfast.cli.in_pod.claims FILE`: refuses volume claims that an upgrade cannot change.

The chart's preflight runs it.  Kubernetes refuses other claims for a StatefulSet that is there, but
only after half of an upgrade.  FILE is YAML, a list of `statefulSet` (its name), `value` (the
chart's) and `claim` (the claim's spec; empty: none).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
import yaml

from holdfast.deploy.kubernetes.in_pod import from_a_pod, own_namespace
from holdfast.errors import HoldfastError, Refused, Retriable

__all__ = ["main", "refuse_others"]

# Of Kubernetes' quantities; it writes 1024Ti as 1Pi.
_UNITS: dict[str, int] = {f"{unit}i": 1024**power for power, unit in enumerate("KMGTPE", 1)}
_UNITS |= {unit: 1000**power for power, unit in enumerate("kMGTPE", 1)}


def main(file: Path) -> int:
    """Compares the claims with those of the StatefulSets; returns the exit status."""
    try:
        refuse_others(yaml.safe_load(file.read_bytes()), own_namespace(), from_a_pod)
    except Retriable as error:
        # Kubernetes itself refuses, if later.
        print(f"The volume claims were not compared: {error}", file=sys.stderr)  # noqa: T201
    except HoldfastError as error:
        print(error, file=sys.stderr)  # noqa: T201 - helm prints the log
        return 1
    return 0


def refuse_others(
    wanted: Iterable[Mapping[str, Any]], namespace: str, ask: Callable[[str], bytes | None]
) -> None:
    """Compares claims with those of the StatefulSets that exist.

    Args:
        wanted: see the module.
        ask: reads a path of the Kubernetes API; None: there is no such object.

    Raises:
        Refused: some differ; all of them are named.
    """
    told, names = [], []
    for one in wanted:
        name = str(one["statefulSet"])
        found = ask(f"/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}")
        if found is None:
            continue
        templates = orjson.loads(found)["spec"].get("volumeClaimTemplates") or [{}]
        now, then = _described(templates[0].get("spec")), _described(one.get("claim"))
        if now != then:
            told.append(f"{one['value']}: the StatefulSet {name} has {now}, not {then}")
            names.append(name)
    if told:
        raise Refused(
            f"The volume claims of a StatefulSet cannot be changed. {'; '.join(told)}.",
            cause="the values differ from those of the release that is there",
            action="delete it without its pods first: "
            f"kubectl -n {namespace} delete statefulset {' '.join(names)} --cascade=orphan; "
            "the chart's README says how volumes grow",
        )


def _described(claim: Mapping[str, Any] | None) -> str:
    """A claim in words; what Kubernetes adds to it by itself is left out."""
    if not claim:
        return "no claim"
    size = claim["resources"]["requests"]["storage"]
    modes = ", ".join(claim["accessModes"])
    kind = claim.get("storageClassName") or "the default storage class"
    return f"{_bytes(str(size)):,} bytes ({modes}, {kind})"


def _bytes(quantity: str) -> int:
    number = quantity.rstrip("KMGTPEki")
    return round(float(number) * _UNITS.get(quantity[len(number) :], 1))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
