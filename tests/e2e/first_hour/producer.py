"""Sends the lines of two files, `key TAB value`, to the topics of their names."""

import sys
from pathlib import Path

from confluent_kafka import Producer

producer = Producer({"bootstrap.servers": sys.argv[1]})
for topic in ("customers", "orders"):
    for line in Path(f"{topic}.txt").read_bytes().splitlines():
        key, _, value = line.partition(b"\t")
        producer.produce(topic, value, key)
    producer.flush()
