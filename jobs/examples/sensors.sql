-- The average reading of each sensor, always current.
--
-- {"sensor": 1, "reading": 45}, {"sensor": 3, "reading": 67} and {"sensor": 3, "reading": 52}
-- give sensor 1 -> 45.0 and sensor 3 -> 59.5.

CREATE STREAM readings (
    sensor  INT,
    reading DOUBLE
) WITH (
    KAFKA_TOPIC = 'readings',
    PARTITIONS = 1,
    VALUE_FORMAT = 'JSON'
);

-- An average is not kept as an average: its state is a sum and a count, so batches can be merged.
CREATE TABLE avg_readings AS
    SELECT
        sensor,
        AVG(reading) AS avg_reading
    FROM readings
    GROUP BY sensor
    EMIT CHANGES;
