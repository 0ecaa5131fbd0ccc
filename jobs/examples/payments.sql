-- Payments per customer: how many, how much.
--
--   holdfast produce payments     writes events such as
--   {"customer": "alice", "amount": 12.5, "ts": 1735725600000}

CREATE STREAM payments (
    customer STRING,
    amount   DOUBLE,
    ts       BIGINT
) WITH (
    KAFKA_TOPIC = 'payments',
    PARTITIONS = 2,
    VALUE_FORMAT = 'JSON'
);

-- WHERE drops records before they are counted; the key is CUSTOMER whatever the topic's key is.
CREATE TABLE payments_per_customer AS
    SELECT
        customer,
        COUNT(*) AS payments,
        SUM(amount) AS amount_total
    FROM payments
    WHERE amount IS NOT NULL
    GROUP BY customer
    EMIT CHANGES;
