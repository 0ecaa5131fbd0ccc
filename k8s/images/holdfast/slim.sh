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
cd ..
rm -rf examples data R sbin licenses tests python/test_coverage pandas/tests
cd ..
rm -rf pip pip-* setuptools setuptools-*
find "$root/venv" -type d -name tests -path '*pyarrow*' -prune -exec rm -rf {} +

# The modules that Spark, Kafka's and Kubernetes' clients load (found by running the tests in the image).
jlink --no-header-files --no-man-pages --strip-debug --compress=2 --output "$root/jre" --add-modules \
java.base,java.compiler,java.datatransfer,java.desktop,java.instrument,java.logging,java.management,java.management.rmi,java.naming,java.net.http,java.prefs,java.rmi,java.scripting,java.security.jgss,java.security.sasl,java.sql,java.transaction.xa,java.xml,java.xml.crypto,jdk.charsets,jdk.crypto.cryptoki,jdk.crypto.ec,jdk.httpserver,jdk.incubator.vector,jdk.jcmd,jdk.jfr,jdk.localedata,jdk.management,jdk.management.agent,jdk.naming.dns,jdk.net,jdk.security.auth,jdk.security.jgss,jdk.unsupported,jdk.zipfs,jdk.attach
"$root/jre/bin/java" -Xshare:dump >/dev/null
