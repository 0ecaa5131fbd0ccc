"""Kafka to Arrow: the Spark data source and the formats it decodes.

`KafkaDataSource` lives in `holdfast.ingest.source`; nothing is imported here so that the
formats can be used without Spark.
"""
