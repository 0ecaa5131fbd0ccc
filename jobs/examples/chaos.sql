-- The job that `make chaos` breaks: three tables and a stream over one topic.
--
-- Event time is the moment of sending, some records a few seconds older; the grace is longer than
-- any fault, so that no record is late and every window has one right answer.

SET 'state.partitions' = '4';
-- A producer that is stopped for longer than this has lost its transaction when it wakes up.
SET 'transaction.timeout.ms' = '10000';
SET 'max.offsets.per.trigger' = '5000';

CREATE STREAM orders (
    customer VARCHAR,
    product VARCHAR,
    amount BIGINT,
    ts BIGINT
  ) WITH (KAFKA_TOPIC = 'chaos_orders', VALUE_FORMAT = 'JSON', PARTITIONS = 3, TIMESTAMP = 'ts');

CREATE TABLE per_customer AS
  SELECT customer, COUNT(*) AS orders, SUM(amount) AS total
  FROM orders
  GROUP BY customer
  EMIT CHANGES;

CREATE TABLE per_product_minute AS
  SELECT product, COUNT(*) AS orders, SUM(amount) AS total
  FROM orders
  WINDOW TUMBLING (SIZE 1 MINUTE, RETENTION 2 DAYS, GRACE PERIOD 1 DAY)
  GROUP BY product
  EMIT CHANGES;

-- Every fourth record of a product takes its row away, the next one brings it back.
CREATE TABLE extremes AS
  SELECT product, COUNT(*) AS orders, MIN(amount) AS smallest, MAX(amount) AS largest
  FROM orders
  GROUP BY product
  HAVING COUNT(*) % 4 <> 0
  EMIT CHANGES;

CREATE STREAM large_orders AS
  SELECT customer, product, amount
  FROM orders
  WHERE amount > 90
  EMIT CHANGES;
