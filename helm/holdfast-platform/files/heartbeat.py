"""Probe of an Airflow component: has its job's row in the database had a heartbeat of late?

    python heartbeat.py JOB_TYPE

`airflow jobs check` asks the same, and spends seconds of processor time on its imports each time.
"""

import os
import socket
import sys
from datetime import datetime, timedelta, timezone

import psycopg2

_LATE = timedelta(seconds=60)
_QUERY = """
    SELECT max(latest_heartbeat) FROM job
    WHERE job_type = %s AND state = 'running' AND hostname = %s
"""


def main() -> int:
    url = os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].replace("+psycopg2", "")
    try:
        with psycopg2.connect(url, connect_timeout=5) as connection, connection.cursor() as cursor:
            cursor.execute(_QUERY, (sys.argv[1], socket.getfqdn()))
            (last,) = cursor.fetchone()
    except psycopg2.Error as error:
        # A restart of this pod would not bring the database back.
        print(f"not asked: {error}")
        return 0
    if last is not None and datetime.now(timezone.utc) - last < _LATE:
        return 0
    print(f"the last heartbeat of {sys.argv[1]} on {socket.getfqdn()}: {last or 'none yet'}")
    return 1


sys.exit(main())
