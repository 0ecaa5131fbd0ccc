"""Shared code of Holdfast's DAGs.  They run the command line `holdfast` in pods or processes and
never import it: Airflow and Spark need separate environments.

Airflow's environment variables for the DAGs:

    HOLDFAST_IMAGE              image of task pods and jobs
    HOLDFAST_NAMESPACE          namespace of task pods and jobs
    HOLDFAST_BOOTSTRAP_SERVERS  Kafka brokers to start from, for target kubernetes
    HOLDFAST_SCHEMA_REGISTRY_URL
                                the schema registry beside those brokers
    HOLDFAST_STATUS_URL         where drivers tell their status: a URL with {name}, {namespace}
    HOLDFAST_COMPACTION_SCHEDULE, HOLDFAST_COMPACTION_PARAMS
                                when changelogs are surveyed, and with which params
    HOLDFAST_STRIMZI_NAMESPACE  where KafkaTopic resources lie
    HOLDFAST_CHAOS_JOB, HOLDFAST_CHAOS_CONFIRM
                                what is broken every night
    HOLDFAST_COMMAND            the executable, for target local
    HOLDFAST_SQL_FOLDER         folder that `sql_file` is relative to; the DAGs' own by default
"""

from __future__ import annotations
