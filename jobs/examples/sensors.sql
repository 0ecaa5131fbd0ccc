-- The average reading of each sensor, always current.
--
--   holdfast produce sensors     writes events such as
--   {"sensor": "sensor-3", "area": "engine", "reading": 67, "ts": 1735725720000}
--
-- sensor-1 reads 45, sensor-3 reads 67 and then 52: their averages are 45 and, in the end, 59.5.

CREATE STREAM readings (
    sensor  STRING,
    area    STRING,
    reading INT,
    ts      BIGINT
) WITH (
    KAFKA_TOPIC = 'readings',
    PARTITIONS = 2,
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
