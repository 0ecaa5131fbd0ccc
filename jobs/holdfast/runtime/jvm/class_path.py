"""Which of Spark's jars a local job's Javas have: each keeps the directory of each in its heap.

A search for a class or a service that no jar has opens all of them, so that a Java with all 279
comes to hold 17 MB of names.  Jars are left out by name: one that nobody here knows stays.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pyspark

__all__ = ["NEVER", "class_path", "launchers_path"]

# Spark's own state store, Hive, machine learning, graphs, the shells, Connect, other systems: what
# slim.sh leaves out of the image, and Kubernetes.  All of a kind or nothing: Spark gets along
# without MLlib, but not with one half of it.
NEVER = (
    "rocksdbjni-*", "hive-beeline-*", "hive-cli-*", "hive-common-*", "hive-exec-*", "hive-jdbc-*",
    "hive-llap-*", "hive-metastore-*", "hive-serde-*", "hive-service-*", "hive-shims-*",
    "spark-hive*", "datanucleus-*", "derby*", "jdo-*", "javax.jdo-*", "spark-mllib*",
    "spark-graphx*", "spark-connect*", "spark-repl*", "breeze*", "spire*", "cats-kernel*",
    "algebra_*", "lapack-*", "blas-*", "arpack*", "jline-*", "zookeeper-*", "curator-*",
    "scala-compiler-*", "spark-yarn*", "spark-mesos*", "spark-ganglia*", "spark-kubernetes*",
    "kubernetes-*", "volcano-*", "vertx-*",
)  # fmt: skip
# Spark SQL and what it alone needs.  Nothing of this is among what `jdeps -R` finds that Spark's
# core refers to, be it by way of others, nor among what it finds by name (log4j's parts, Netty's).
_SQL = (
    "spark-sql*", "spark-catalyst*", "spark-pipelines*", "spark-sketch*", "spark-streaming*",
    "spark-variant*", "antlr*", "ST4-*", "arrow-*", "flatbuffers-*", "avro-ipc-*", "avro-mapred-*",
    "aircompressor-*", "commons-compiler-*", "janino-*", "datasketches-*", "guava-*",
    "hive-storage-api-*", "orc-*", "parquet-*", "joda-time-*", "threeten-extra-*", "jts-*",
    "univocity-*", "xmlschema-*", "JTransforms-*", "JLargeArrays-*", "jaxb-runtime-*",
    "jaxb-core-*", "javassist-*", "javolution-*", "libthrift-*", "libfb303-*", "http*",
)  # fmt: skip


@cache
def class_path(*, sql: bool) -> str:
    """Jar by jar, without those that no job needs.

    A class archive is good with the jars it was made with, in their order, and with more behind
    them: those of Spark SQL are the last.

    Args:
        sql: with Spark SQL.
    """
    first, jars = _slf4j(), _package().glob("*.jar")
    others = sorted(jar for jar in jars if jar not in first and not _is(jar, NEVER))
    core = [jar for jar in others if not _is(jar, _SQL)]
    rest = [jar for jar in others if _is(jar, _SQL)] if sql else []
    return ":".join(map(str, [*first, *core, *rest]))


def launchers_path() -> str:
    """As Spark's launcher makes it: `holdfast test` has that path, and other drivers' archive."""
    return ":".join([*map(str, _slf4j()), f"{_package()}/*"])


def _slf4j() -> list[Path]:
    """Spark's launcher has it first."""
    return sorted(_package().glob("slf4j-api-*.jar"))


def _package() -> Path:
    return Path(pyspark.__file__).resolve().parent / "jars"


def _is(jar: Path, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(jar.name, pattern) for pattern in patterns)
