-- How many tickets of each movie were sold?  The shortest useful file: a stream and a table.

-- {"title": "The Big Lebowski", "sale_ts": "2019-07-18T11:30:00Z", "ticket_total_value": 12}
CREATE STREAM movie_ticket_sales (
    title              STRING,
    sale_ts            STRING,
    ticket_total_value INT
) WITH (
    KAFKA_TOPIC = 'movie-ticket-sales',
    PARTITIONS = 1,
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
