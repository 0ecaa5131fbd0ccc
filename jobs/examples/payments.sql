-- Payments per customer: how many, how much.
--
-- {"payment_id": "p-1", "customer": "alice", "amount": 20}

CREATE STREAM payments (
    payment_id STRING,
    customer   STRING,
    amount     BIGINT   -- cents: whole numbers add up exactly
) WITH (
    KAFKA_TOPIC = 'payments',
    PARTITIONS = 4,
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
