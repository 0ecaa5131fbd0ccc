-- What a stranger makes of their own shop: orders of one topic, customers of another.

SET 'state.partitions' = '2';

CREATE STREAM orders (
    order_id STRING,
    customer_id STRING,
    product STRING,
    amount DECIMAL(10, 2),
    ordered_at STRING
  ) WITH (KAFKA_TOPIC = 'orders', VALUE_FORMAT = 'JSON', TIMESTAMP = 'ordered_at',
        TIMESTAMP_FORMAT = 'yyyy-MM-dd''T''HH:mm:ss.SSS');

CREATE TABLE customers (customer_id STRING PRIMARY KEY, name STRING, country STRING)
  WITH (KAFKA_TOPIC = 'customers', VALUE_FORMAT = 'JSON');

-- The shop sends some orders twice.
CREATE STREAM unique_orders WITH (DEDUPLICATE_WITHIN = '2 HOURS') AS
  SELECT order_id, customer_id, product, amount FROM orders PARTITION BY order_id;

-- Who ordered; guests are no customers.
CREATE STREAM customers_orders AS
  SELECT o.customer_id AS customer_id, order_id, product, amount, name, INITIALS(name) AS initials,
         COALESCE(country, 'unknown') AS country
  FROM unique_orders o LEFT JOIN customers c ON o.customer_id = c.customer_id;

CREATE TABLE visits AS
  SELECT customer_id, COUNT(*) AS orders, SUM(amount) AS spent
  FROM customers_orders WINDOW SESSION (30 MINUTES, GRACE PERIOD 1 DAY)
  GROUP BY customer_id;

CREATE TABLE largest_orders AS
  SELECT product, TOPK(amount, 3) AS largest FROM customers_orders GROUP BY product;

-- Who may need a second van?
CREATE TABLE rushes AS
  SELECT country, COUNT(*) AS orders
  FROM customers_orders WINDOW TUMBLING (SIZE 10 MINUTES, GRACE PERIOD 1 DAY)
  GROUP BY country HAVING COUNT(*) >= 12;

CREATE TABLE typical_amounts AS
  SELECT product, MEDIAN(amount) AS typical FROM customers_orders GROUP BY product;
