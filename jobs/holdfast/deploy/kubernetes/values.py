"""Values of the chart from what `holdfast deploy` was given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.config.properties import KAFKA_PREFIX
from holdfast.config.secrets import FILE, is_secret, names_file
from holdfast.errors import InvalidConfig

__all__ = ["chart_values"]

# Properties that have a value of their own in the chart.
_PLACES = {
    "bootstrap.servers": ("kafka", "bootstrapServers"),
    "executors": ("executor", "replicas"),
    "executor.memory.mb": ("executor", "heapMiB"),
    "driver.memory.mb": ("driver", "heapMiB"),
}
_NUMBERS = frozenset({"executors", "executor.memory.mb", "driver.memory.mb"})
# The chart decides these; what a laptop's settings say of them means nothing in a pod.
_CHARTS_OWN = frozenset({"application.id", "home", "state.dir", "spark.master", "metrics.port"})


def chart_values(sql: str, given: Mapping[str, object], image: str | None) -> dict[str, Any]:
    """The values that say the same as these statements, properties and image.

    Raises:
        InvalidConfig: a property is secret, the image has no tag or digest, or a file of functions
            cannot be read.
    """
    values: dict[str, Any] = {"sql": sql, "properties": {}}
    for name, value in given.items():
        if name in _PLACES:
            section, key = _PLACES[name]
            values.setdefault(section, {})[key] = _plain(name, value)
        elif is_secret(name) or names_file(name):
            raise _needs_a_secret(name)
        elif name.startswith(KAFKA_PREFIX):
            kafka = values.setdefault("kafka", {}).setdefault("properties", {})
            kafka[name.removeprefix(KAFKA_PREFIX)] = value
        elif name == "functions":
            values["functions"] = _functions(value)
        elif name not in _CHARTS_OWN:
            values["properties"][name] = value
    if image:
        values["image"] = _image(image)
    return values


def _needs_a_secret(name: str) -> InvalidConfig:
    setting = name.removeprefix(KAFKA_PREFIX).removesuffix(FILE)
    return InvalidConfig(
        f"{name} is not for the values of a release: everybody who may read its ConfigMaps would "
        "know it.",
        action="put it into a Secret of the job's namespace and name that in a file of --values: "
        f"kafka: {{secretProperties: {{{setting}: {{name: SECRET, key: KEY}}}}}}",
    )


def _plain(name: str, value: object) -> object:
    return int(str(value)) if name in _NUMBERS else value


def _functions(value: object) -> dict[str, str]:
    """The files of user-defined aggregates: file name -> text."""
    names = value if isinstance(value, list) else str(value).split(",")
    return {Path(n.strip()).name: Path(n.strip()).read_text(encoding="utf-8") for n in names}


def _image(image: str) -> dict[str, str]:
    named, _, digest = image.partition("@")
    repository, _, tag = named.rpartition(":")
    if "/" in tag or not repository:  # that was the port of a registry, or nothing
        repository, tag = named, ""
    if not (repository and (tag or digest)):
        raise InvalidConfig(
            f"The image {image} has no tag.",
            action="give it as REPOSITORY:TAG, or as REPOSITORY@sha256:… for exactly that one",
        )
    given = {"repository": repository, "tag": tag, "digest": digest}
    return {name: value for name, value in given.items() if value}
