-- Flights that left New York in 2013, as events on a Kafka topic, kept as two state tables.
--
--   holdfast explain jobs/examples/flights.sql     what this file means
--   holdfast run jobs/examples/flights.sql         run it

-- A STREAM gives a topic a name and a shape.  Each record is one flight, written as JSON.
-- Names without quotes are upper-case (CARRIER, FLIGHTS); JSON fields match in any case.
-- TIMESTAMP says which column carries event time, here milliseconds since 1970.
CREATE STREAM flights (
    carrier   STRING,   -- airline, two letters
    flight    INT,      -- flight number
    origin    STRING,   -- airport of departure: EWR, JFK or LGA
    dest      STRING,   -- airport of arrival
    tailnum   STRING,   -- the plane
    dep_delay DOUBLE,   -- minutes; negative is early, NULL is cancelled
    arr_delay DOUBLE,   -- minutes
    distance  DOUBLE,   -- miles
    air_time  DOUBLE,   -- minutes
    ts        BIGINT    -- scheduled departure
) WITH (
    KAFKA_TOPIC = 'flights',
    VALUE_FORMAT = 'JSON',
    TIMESTAMP = 'ts',
    PARTITIONS = 4
);

-- A TABLE keeps one row per key up to date.  GROUP BY makes CARRIER the key of the table and of
-- the records in its topic, FLIGHTS_PER_CARRIER; the other columns are the value.
CREATE TABLE flights_per_carrier AS
    SELECT
        carrier,
        COUNT(*) AS flights,
        COUNT(dep_delay) AS departed,           -- NULLs are not counted
        SUM(dep_delay) AS dep_delay_total,
        AVG(dep_delay) AS dep_delay_avg,
        MAX(dep_delay) AS dep_delay_max,
        -- An expression over aggregates is evaluated after they are merged.
        SUM(distance) / COUNT(*) AS miles_per_flight
    FROM flights
    GROUP BY carrier
    EMIT CHANGES;

-- One row per airport and hour of event time.  Events up to a day late still count (GRACE
-- PERIOD); a window's row is kept for a week (RETENTION).
CREATE TABLE flights_per_origin_hour WITH (PARTITIONS = 4) AS
    SELECT
        origin,
        COUNT(*) AS flights,
        SUM(dep_delay) AS dep_delay_total,
        AVG(dep_delay) AS dep_delay_avg
    FROM flights
    WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 7 DAYS, GRACE PERIOD 1 DAY)
    GROUP BY origin
    EMIT CHANGES;
