#!/bin/sh
# Start and end a broker once, so that the classes it loads are kept in an archive: later starts are quicker.
set -eu
export KAFKA_DATA=/tmp/train KAFKA_JVM="-Xmx256m -XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit=/opt/kafka/kafka.jsa" HOSTNAME=localhost
mkdir -p $KAFKA_DATA
/opt/kafka/bin/kafka-start > /tmp/train.log 2>&1 &
broker=$!
for _ in $(seq 60); do
  /opt/kafka/bin/kafka-probe ready 2>/dev/null && break
  sleep 1
done
/opt/kafka/bin/kafka-probe ready || { cat /tmp/train.log; exit 1; }
kill -TERM $broker
wait $broker || true
rm -rf $KAFKA_DATA
test -s /opt/kafka/kafka.jsa
