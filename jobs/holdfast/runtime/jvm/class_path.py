"""The class path of a local job: only the jars it needs, because a JVM keeps each jar's index.

A search for a class or service that no jar has opens all jars, so that a JVM with all 279 holds
17 MB of names.  Jars are excluded by name: unknown jars stay.  Spark SQL is not on it.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pyspark

__all__ = ["NEVER", "class_path"]

# Spark's own state store, Hive, machine learning, graphs, the shells, Connect, other systems (the
# jars that slim.sh removes from the image), and Kubernetes.  A component is excluded as a whole:
# Spark runs without MLlib, but not with half of it.
NEVER = (
    "rocksdbjni-*", "hive-beeline-*", "hive-cli-*", "hive-common-*", "hive-exec-*", "hive-jdbc-*",
    "hive-llap-*", "hive-metastore-*", "hive-serde-*", "hive-service-*", "hive-shims-*",
    "spark-hive*", "datanucleus-*", "derby*", "jdo-*", "javax.jdo-*", "spark-mllib*",
    "spark-graphx*", "spark-connect*", "spark-repl*", "breeze*", "spire*", "cats-kernel*",
    "algebra_*", "lapack-*", "blas-*", "arpack*", "jline-*", "zookeeper-*", "curator-*",
    "scala-compiler-*", "spark-yarn*", "spark-mesos*", "spark-ganglia*", "spark-kubernetes*",
    "kubernetes-*", "volcano-*", "vertx-*",
)  # fmt: skip
# Spark SQL and the jars that only it needs.  By `jdeps -R`, Spark's core does not refer to any of
# them, not even indirectly; nor does it load their classes by name (as it does log4j's, Netty's).
_SQL = (
    "spark-sql*", "spark-catalyst*", "spark-pipelines*", "spark-sketch*", "spark-streaming*",
    "spark-variant*", "antlr*", "ST4-*", "arrow-*", "flatbuffers-*", "avro-ipc-*", "avro-mapred-*",
    "aircompressor-*", "commons-compiler-*", "janino-*", "datasketches-*", "guava-*",
    "hive-storage-api-*", "orc-*", "parquet-*", "joda-time-*", "threeten-extra-*", "jts-*",
    "univocity-*", "xmlschema-*", "JTransforms-*", "JLargeArrays-*", "jaxb-runtime-*",
    "jaxb-core-*", "javassist-*", "javolution-*", "libthrift-*", "libfb303-*", "http*",
)  # fmt: skip


@cache
def class_path() -> str:
    """The class path, jar by jar, without the jars that no job needs.

    A class archive is valid for the jars it was made with, in their order.
    """
    first, jars = _slf4j(), _package().glob("*.jar")
    others = (jar for jar in jars if jar not in first and not _is(jar, (*NEVER, *_SQL)))
    return ":".join(map(str, [*first, *sorted(others)]))


def _slf4j() -> list[Path]:
    """The slf4j jars, which Spark's launcher puts first."""
    return sorted(_package().glob("slf4j-api-*.jar"))


def _package() -> Path:
    return Path(pyspark.__file__).resolve().parent / "jars"


def _is(jar: Path, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(jar.name, pattern) for pattern in patterns)
