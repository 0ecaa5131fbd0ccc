-- How many tickets of each movie were sold?  The shortest useful file: a stream and a table.

--   holdfast produce movies     writes events such as
--   {"title": "Die Hard", "ticket_total_value": 12, "ts": 1735725600000}
CREATE STREAM movie_ticket_sales (
    title              STRING,
    ticket_total_value INT,
    ts                 BIGINT
) WITH (
    KAFKA_TOPIC = 'movie_ticket_sales',
    PARTITIONS = 2,
    VALUE_FORMAT = 'JSON'
);

-- TITLE becomes the key.  COUNT(x) counts the records whose x is not NULL.
CREATE TABLE movie_tickets_sold AS
    SELECT
        title,
        COUNT(ticket_total_value) AS tickets_sold
    FROM movie_ticket_sales
    GROUP BY title
    EMIT CHANGES;
