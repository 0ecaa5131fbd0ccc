-- A second job for `make chaos` (CHAOS_SQL=jobs/examples/chaos_joins.sql): joins, sessions, final
-- results and an aggregate over a table.
--
-- Nearly all of it depends on the order in which records come. The judge knows that order: every
-- commit marker names the offsets of its batch.  Nothing here has a name of chaos.sql's: the tests
-- break a job of both files.

SET 'state.partitions' = '4';
SET 'transaction.timeout.ms' = '10000';
SET 'max.offsets.per.trigger' = '5000';

CREATE STREAM purchases (customer VARCHAR KEY, amount BIGINT, ts BIGINT)
  WITH (KAFKA_TOPIC = 'chaos_purchases', VALUE_FORMAT = 'JSON', PARTITIONS = 3, TIMESTAMP = 'ts');

CREATE STREAM payments (customer VARCHAR KEY, paid BIGINT, ts BIGINT)
  WITH (KAFKA_TOPIC = 'chaos_payments', VALUE_FORMAT = 'JSON', PARTITIONS = 2, TIMESTAMP = 'ts');

CREATE TABLE customers (customer VARCHAR PRIMARY KEY, city VARCHAR, level BIGINT)
  WITH (KAFKA_TOPIC = 'chaos_customers', VALUE_FORMAT = 'JSON', PARTITIONS = 3);

CREATE STREAM paid_orders AS
  SELECT purchases.customer, amount, paid
  FROM purchases LEFT JOIN payments
    WITHIN 5 SECONDS GRACE PERIOD 10 SECONDS ON purchases.customer = payments.customer
  EMIT CHANGES;

CREATE STREAM orders_with_level AS
  SELECT purchases.customer, amount, level
  FROM purchases LEFT JOIN customers ON purchases.customer = customers.customer
  EMIT CHANGES;

CREATE TABLE sprees AS
  SELECT customer, COUNT(*) AS orders, SUM(amount) AS total
  FROM purchases
  WINDOW SESSION (4 SECONDS, GRACE PERIOD 10 SECONDS)
  GROUP BY customer
  EMIT CHANGES;

CREATE TABLE final_takings AS
  SELECT customer, SUM(paid) AS paid
  FROM payments
  WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 5 SECONDS)
  GROUP BY customer
  EMIT FINAL;

CREATE TABLE customers_of_level AS
  SELECT level, COUNT(*) AS customers
  FROM customers
  GROUP BY level
  EMIT CHANGES;
