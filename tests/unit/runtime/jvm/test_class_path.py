"""The class path of a local job's Javas: what is on it, in which order."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pyspark

from holdfast.runtime.jvm.class_path import NEVER, class_path

JARS = Path(pyspark.__file__).resolve().parent / "jars"
SLIM = Path(__file__).parents[4] / "k8s" / "images" / "holdfast" / "slim.sh"
# What the processes of a job were seen to load classes from, and what errors, compressed
# shuffles and native transports take them from.
LOADED = (
    "RoaringBitmap", "avro", "chill", "chill-java", "commons-collections4", "commons-io",
    "commons-lang3", "compress-lzf", "hadoop-client-api", "hadoop-client-runtime", "icu4j", "ivy",
    "jackson-annotations", "jackson-core", "jackson-databind", "jackson-dataformat-yaml",
    "jackson-module-scala", "javax.servlet-api", "jcl-over-slf4j", "json4s-ast", "json4s-core",
    "json4s-jackson", "json4s-jackson-core", "jul-to-slf4j", "kryo-shaded", "leveldbjni-all",
    "log4j-1.2-api", "log4j-api", "log4j-core", "log4j-layout-template-json", "log4j-slf4j2-impl",
    "lz4-java", "metrics-core", "metrics-json", "metrics-jvm", "minlog", "netty-buffer",
    "netty-codec-base", "netty-common", "netty-handler", "netty-resolver", "netty-transport",
    "netty-transport-classes-epoll", "netty-transport-native-epoll",
    "netty-transport-native-unix-common", "objenesis", "paranamer", "pickle", "py4j",
    "scala-library", "scala-reflect", "scala-xml", "slf4j-api", "snappy-java",
    "spark-common-utils", "spark-common-utils-java", "spark-core",
    "spark-kvstore", "spark-launcher", "spark-network-common", "spark-network-shuffle",
    "spark-tags", "spark-unsafe", "stream", "tink", "xbean-asm9-shaded",
    "zstd-jni",
)  # fmt: skip
SINCE_4_3 = ("spark-config", "spark-udf-worker-core")


def _names(path: str) -> list[str]:
    assert all(Path(jar).parent == JARS for jar in path.split(":"))
    return [Path(jar).name for jar in path.split(":")]


def test_a_job_has_what_its_processes_load() -> None:
    names = _names(class_path())
    loaded = LOADED if pyspark.__version__.startswith("4.2.") else LOADED + SINCE_4_3
    missing = [j for j in loaded if not any(fnmatchcase(n, f"{j}[-_][0-9]*.jar") for n in names)]
    assert not missing
    assert len(names) == len(set(names))
    assert names[0].startswith("slf4j-api-")
    assert not [n for n in names if "catalyst" in n or "spark-sql" in n]


def test_what_the_image_leaves_out_is_left_out_here() -> None:
    listed = re.search(r"^rm -f ((?:.*\\\n)*.*)$", SLIM.read_text(encoding="utf-8"), re.MULTILINE)
    assert listed is not None
    theirs = listed[1].replace("\\\n", " ").split()
    # Netty's for other systems cost little, and somebody may have one of those.
    assert {pattern for pattern in theirs if not pattern.startswith("netty-")} <= set(NEVER)


def test_none_of_them_is_on_a_jobs_path() -> None:
    names = _names(class_path())
    assert not [name for name in names if any(fnmatchcase(name, p) for p in NEVER)]
