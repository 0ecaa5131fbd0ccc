"""COUNT and SUM(amount) per customer, title, or customer and 5 minutes, by Spark's own state.

Spark keeps the state (RocksDB provider, changelog checkpointing); records come through the same
Kafka source as in Holdfast, so only what keeps the table differs.  The sink is at least once:
after a crash a batch is written again.  Arguments: as the other programs, and the batch size.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from holdfast.cli.statements.options import Sql, load_job
from holdfast.ingest.used_columns import used_columns
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.partitioner import murmur2_partitions
from holdfast.types.ids import Place
from holdfast.types.ingest import IngestOptions
from tests.bench.systems.apps.spark_session import sql_session
from tests.bench.systems.apps.spark_source import (
    FORMAT,
    KafkaDataSource,
    options_of,
    places_from_spark,
)
from tests.bench.systems.holdfast import statements
from tests.bench.systems.peers import Case
from tests.bench.workloads import PARTITIONS, Query

_WINDOW = "__timestamp - pmod(__timestamp, 300000L)"
_producers: dict[str, Producer] = {}


def main(case: Case) -> None:
    """Runs until it is stopped."""
    given = [f"bootstrap.servers={case.bootstrap}", f"max.offsets.per.trigger={case.batch}"]
    sql = Sql(given=statements(case))
    job = load_job(sql, None, given, str(case.folder), name=case.application)
    session = sql_session(job.settings)
    session.dataSource.register(KafkaDataSource)
    query = job.topology.queries[0]
    options = IngestOptions(
        source=query.source,
        kafka=job.settings.client(),
        columns=used_columns(query),
        max_offsets_per_trigger=case.batch,
        on_undecodable="fail",
    )
    admin = Admin(job.settings.client())
    checkpoint = case.folder / "checkpoint"
    topic = case.input_topic

    def on_batch(frame: DataFrame, batch_id: int) -> None:
        write = partial(_write, bootstrap=case.bootstrap, topic=case.sink_topic)
        frame.mapInArrow(write, "records BIGINT").collect()
        offsets = {p: end for (_, p), end in _ends_of(checkpoint, batch_id).items()}
        admin.commit_group(case.application, topic, offsets)

    reader = session.readStream.format(FORMAT).options(**options_of(options))
    writer = _totals(reader.load(), case.query).writeStream.outputMode("update")
    streaming = writer.foreachBatch(on_batch).option("checkpointLocation", str(checkpoint)).start()
    signal.signal(signal.SIGTERM, lambda *_: streaming.stop())
    streaming.awaitTermination()


def _ends_of(checkpoint: Path, batch_id: int) -> dict[Place, int]:
    """The end offsets of a batch, from the log that Spark wrote before it.

    It has a version line, a metadata line, and one line per source.
    """
    lines = (checkpoint / "offsets" / str(batch_id)).read_text().splitlines()
    return places_from_spark(json.loads(lines[2]))


def _totals(frame: DataFrame, query: Query) -> DataFrame:
    key = "TITLE" if query is Query.TITLE else "CUSTOMER"
    grouping = [expr(f"{key} AS key")]
    if query is Query.WINDOW:
        grouping.append(expr(f"{_WINDOW} AS start"))
    totals = frame.groupBy(*grouping).agg(
        expr("count(1) AS N"), expr("sum(AMOUNT) AS TOTAL"), expr("max(__timestamp) AS ts")
    )
    shown = "concat(key, '@', start)" if query is Query.WINDOW else "key"
    return totals.selectExpr(
        f"cast({shown} AS BINARY) AS key",
        "cast(to_json(named_struct('N', N, 'TOTAL', TOTAL)) AS BINARY) AS value",
        "ts",
    )


def _write(
    batches: Iterator[pa.RecordBatch], bootstrap: str, topic: str
) -> Iterator[pa.RecordBatch]:
    producer = _producers.get(bootstrap) or Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 10,
            "queue.buffering.max.messages": 500_000,
        }
    )
    _producers[bootstrap] = producer
    count = 0
    for batch in batches:
        keys, values, times = (batch[name].to_pylist() for name in ("key", "value", "ts"))
        places = murmur2_partitions(keys, PARTITIONS)
        for key, value, place, ts in zip(keys, values, places, times, strict=True):
            _produce(producer, topic, value, key, place, ts)
        count += len(keys)
    if producer.flush(60):
        raise RuntimeError("records of the sink were not delivered")
    yield pa.record_batch({"records": pa.array([count], pa.int64())})


def _produce(producer: Any, topic: str, value: bytes, key: bytes, place: int, ts: int) -> None:
    while True:
        try:
            producer.produce(topic, value, key, place, timestamp=ts)
        except BufferError:
            producer.poll(0.1)
        else:
            return


if __name__ == "__main__":
    # Under its own name: Spark sends the functions of `__main__` by value, with all they refer to.
    from tests.bench.systems.apps import spark_app

    brokers, application, source, _sink, query, folder, batch = sys.argv[1:]
    case = Case(brokers, application, (source,), Query(query), Path(folder), int(batch))
    spark_app.main(case)
