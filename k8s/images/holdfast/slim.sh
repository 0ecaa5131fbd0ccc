#!/bin/sh
# Leaves out of the image what a Holdfast job never loads.  $1: the folder that holds the venv.
set -eu
root=$1
jars=$root/venv/lib/python3.11/site-packages/pyspark/jars
java -cp "$jars/*" /tmp/ModuleOptions.java > "$root/java-options"

cd "$jars"
# Spark's own state store, Hive, machine learning, graphs, the shells, Connect, other systems.
rm -f rocksdbjni-* hive-beeline-* hive-cli-* hive-common-* hive-exec-* hive-jdbc-* hive-llap-* \
    hive-metastore-* hive-serde-* hive-service-* hive-shims-* spark-hive* datanucleus-* derby* jdo-* javax.jdo-* \
    spark-mllib* spark-graphx* spark-connect* spark-repl* breeze* spire* cats-kernel* algebra_* \
    lapack-* blas-* arpack* jline-* zookeeper-* curator-* scala-compiler-* \
    netty-tcnative-*-windows-* netty-tcnative-*-osx-* netty-*-kqueue-* spark-yarn* spark-mesos* spark-ganglia*

# One jar that names all others in a fixed order stands for them: folders list files in any order, and
# Java's class archive (train.py) is good for one class path only.
python3 - <<'END'
import pathlib, shutil, zipfile
jars = pathlib.Path.cwd()
home = jars.parent / "jars-in-order"
home.mkdir()
for entry in list(jars.iterdir()):
    shutil.move(entry, home)
line = "Class-Path: " + " ".join(f"../{home.name}/{jar.name}" for jar in sorted(home.glob("*.jar")))
wrapped = "\r\n ".join([line[:70], *(line[i : i + 69] for i in range(70, len(line), 69))])
with zipfile.ZipFile(jars / "spark.jar", "w") as archive:
    archive.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\r\n{wrapped}\r\n\r\n")
END
cd ..
# The zip of PySpark in python/ as well: Python would compile all of it in each of its processes.
rm -rf examples data R sbin licenses tests python pandas/tests
cd ..
rm -rf pip pip-* setuptools setuptools-*
find "$root/venv" -type d -name tests -path '*pyarrow*' -prune -exec rm -rf {} +

# The modules that Spark, Kafka's and Kubernetes' clients load (found by running the tests in the image).
jlink --no-header-files --no-man-pages --strip-debug --compress=2 --output "$root/jre" --add-modules \
java.base,java.compiler,java.datatransfer,java.desktop,java.instrument,java.logging,java.management,java.management.rmi,java.naming,java.net.http,java.prefs,java.rmi,java.scripting,java.security.jgss,java.security.sasl,java.sql,java.transaction.xa,java.xml,java.xml.crypto,jdk.charsets,jdk.crypto.cryptoki,jdk.crypto.ec,jdk.httpserver,jdk.incubator.vector,jdk.jcmd,jdk.jfr,jdk.localedata,jdk.management,jdk.management.agent,jdk.naming.dns,jdk.net,jdk.security.auth,jdk.security.jgss,jdk.unsupported,jdk.zipfs,jdk.attach
"$root/jre/bin/java" -Xshare:dump >/dev/null
