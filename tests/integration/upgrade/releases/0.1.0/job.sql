-- Statements of every kind whose stored bytes a later release has to read and go on from.
-- `ordered` has one partition: what depends on the order of records is the same in every run.
CREATE STREAM events (id STRING KEY, name STRING, n INT, big BIGINT, d DOUBLE, price DECIMAL(10, 2),
    ok BOOLEAN, day DATE, moment TIMESTAMP, clock TIME, raw BYTES, place STRUCT<city STRING, zip INT>,
    tags ARRAY<STRING>, nums ARRAY<INT>, ts BIGINT)
  WITH (KAFKA_TOPIC='events', VALUE_FORMAT='JSON', TIMESTAMP='ts');
CREATE STREAM ordered (id STRING KEY, name STRING, n INT, big BIGINT, d DOUBLE, price DECIMAL(10, 2),
    ok BOOLEAN, day DATE, moment TIMESTAMP, clock TIME, raw BYTES, place STRUCT<city STRING, zip INT>,
    tags ARRAY<STRING>, nums ARRAY<INT>, ts BIGINT)
  WITH (KAFKA_TOPIC='ordered', VALUE_FORMAT='JSON', TIMESTAMP='ts');
CREATE STREAM payments (id STRING KEY, paid BIGINT, kind STRING)
  WITH (KAFKA_TOPIC='payments', VALUE_FORMAT='JSON');
CREATE TABLE people (id STRING PRIMARY KEY, city STRING, age INT, boss STRING)
  WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON');
CREATE TABLE cities (city STRING PRIMARY KEY, country STRING, area DOUBLE)
  WITH (KAFKA_TOPIC='cities', VALUE_FORMAT='JSON');
CREATE STREAM numbered (n BIGINT KEY, v INT) WITH (KAFKA_TOPIC='numbered', VALUE_FORMAT='JSON');

-- Keys: plain columns.
CREATE TABLE by_string AS SELECT id, COUNT(*) AS c, SUM(big) AS s FROM events GROUP BY id;
CREATE TABLE by_text AS SELECT name, COUNT(*) AS c, SUM(n) AS s FROM events GROUP BY name;
CREATE TABLE by_integer AS SELECT n, COUNT(*) AS c FROM events GROUP BY n;
CREATE TABLE by_bigint AS SELECT big, COUNT(*) AS c FROM events GROUP BY big;
CREATE TABLE by_kafka AS SELECT n, COUNT(v) AS c, SUM(v) AS s FROM numbered GROUP BY n;
CREATE TABLE by_double WITH (KEY_FORMAT='JSON') AS
  SELECT d, COUNT(*) AS c FROM events GROUP BY d;
CREATE TABLE by_decimal WITH (KEY_FORMAT='JSON') AS
  SELECT price, COUNT(*) AS c FROM events GROUP BY price;
CREATE TABLE by_boolean WITH (KEY_FORMAT='JSON') AS
  SELECT ok, COUNT(*) AS c FROM events GROUP BY ok;
CREATE TABLE by_date WITH (KEY_FORMAT='JSON') AS
  SELECT day, COUNT(*) AS c FROM events GROUP BY day;
CREATE TABLE by_timestamp WITH (KEY_FORMAT='JSON') AS
  SELECT moment, COUNT(*) AS c FROM events GROUP BY moment;
CREATE TABLE by_time WITH (KEY_FORMAT='JSON') AS
  SELECT clock, COUNT(*) AS c FROM events GROUP BY clock;
CREATE TABLE by_bytes WITH (KEY_FORMAT='JSON') AS
  SELECT raw, COUNT(*) AS c FROM events GROUP BY raw;
CREATE TABLE by_struct WITH (KEY_FORMAT='JSON') AS
  SELECT place, COUNT(*) AS c FROM events GROUP BY place;
CREATE TABLE by_array WITH (KEY_FORMAT='JSON') AS
  SELECT tags, COUNT(*) AS c FROM events GROUP BY tags;
CREATE TABLE by_several WITH (KEY_FORMAT='JSON') AS
  SELECT name, n, ok, day, price, COUNT(*) AS c FROM events GROUP BY name, n, ok, day, price;
CREATE TABLE by_two WITH (KEY_FORMAT='DELIMITED') AS
  SELECT name, big, COUNT(*) AS c, MAX(d) AS m FROM events GROUP BY name, big;

-- Keys: expressions.
CREATE TABLE by_upper AS SELECT UCASE(name) AS k, COUNT(*) AS c FROM events GROUP BY UCASE(name);
CREATE TABLE by_part AS SELECT SUBSTRING(name, 1, 2) AS k, COUNT(*) AS c, SUM(n) AS s
  FROM events GROUP BY SUBSTRING(name, 1, 2);
CREATE TABLE by_sum AS SELECT n * 2 + big AS k, COUNT(*) AS c FROM events GROUP BY n * 2 + big;
CREATE TABLE by_rest AS SELECT n % 3 AS k, SUM(n / 2) AS s FROM events GROUP BY n % 3;
CREATE TABLE by_half WITH (KEY_FORMAT='JSON') AS
  SELECT d / 2 AS k, COUNT(*) AS c FROM events GROUP BY d / 2;
CREATE TABLE by_case AS
  SELECT CASE WHEN n > 10 THEN 'many' WHEN n > 0 THEN 'some' ELSE 'none' END AS k,
    COUNT(*) AS c, SUM(CASE WHEN ok THEN 1 ELSE 0 END) AS s FROM events
  GROUP BY CASE WHEN n > 10 THEN 'many' WHEN n > 0 THEN 'some' ELSE 'none' END;
CREATE TABLE by_mixed WITH (KEY_FORMAT='JSON') AS
  SELECT LCASE(TRIM(name)) AS k, place->city AS city, CAST(d AS BIGINT) AS whole, COUNT(*) AS c
  FROM events GROUP BY LCASE(TRIM(name)), place->city, CAST(d AS BIGINT);
CREATE TABLE by_cast AS SELECT CAST(d AS STRING) AS k, COUNT(*) AS c
  FROM events GROUP BY CAST(d AS STRING);
CREATE TABLE by_cents AS SELECT CAST(price AS STRING) AS k, SUM(price * 2) AS s
  FROM events GROUP BY CAST(price AS STRING);
CREATE TABLE by_formatted AS SELECT FORMAT_DATE(day, 'yyyy-MM') AS k, COUNT(*) AS c
  FROM events GROUP BY FORMAT_DATE(day, 'yyyy-MM');

-- WHERE.
CREATE TABLE filtered AS SELECT id, COUNT(*) AS c, SUM(price) AS s FROM events
  WHERE n > 3 AND (ok OR name IS NULL) AND price <> 1.50 GROUP BY id;
CREATE TABLE liked AS SELECT name, COUNT(*) AS c FROM events
  WHERE name LIKE '%_a%' OR name LIKE '10!%' ESCAPE '!' GROUP BY name;
CREATE TABLE matched AS SELECT REGEXP_EXTRACT('([a-z]+)[0-9]*', name, 1) AS k, COUNT(*) AS c
  FROM events WHERE REGEXP_REPLACE(name, '[^a-z]', '') <> '' AND name IN ('ann', 'bob7', 'Zoë x1')
  GROUP BY REGEXP_EXTRACT('([a-z]+)[0-9]*', name, 1);

-- Aggregates.
CREATE TABLE sums AS SELECT id, COUNT(n) AS cn, SUM(n) AS sn, SUM(big) AS sb, SUM(d) AS sd,
    SUM(price) AS sp, AVG(n) AS an, AVG(big) AS ab, AVG(d) AS ad, AVG(price) AS ap,
    SUM_LIST(nums) AS sl FROM events GROUP BY id;
CREATE TABLE lowest AS SELECT id, MIN(n) AS n, MIN(big) AS big, MIN(d) AS d, MIN(price) AS price,
    MIN(name) AS name, MIN(day) AS day, MIN(moment) AS moment, MIN(clock) AS clock, MIN(raw) AS raw
  FROM events GROUP BY id;
CREATE TABLE highest AS SELECT id, MAX(n) AS n, MAX(big) AS big, MAX(d) AS d, MAX(price) AS price,
    MAX(name) AS name, MAX(day) AS day, MAX(moment) AS moment, MAX(clock) AS clock, MAX(raw) AS raw
  FROM events GROUP BY id;
CREATE TABLE lists AS SELECT id, COLLECT_LIST(name) AS ln, COLLECT_LIST(d) AS ld,
    COLLECT_LIST(price) AS lp, COLLECT_LIST(day) AS ly, COLLECT_LIST(moment) AS la,
    COLLECT_LIST(raw) AS lr, COLLECT_LIST(place) AS ls, COLLECT_LIST(tags) AS lt
  FROM ordered GROUP BY id;
CREATE TABLE sets AS SELECT id, COLLECT_SET(name) AS ln, COLLECT_SET(d) AS ld,
    COLLECT_SET(price) AS lp, COLLECT_SET(ok) AS lo, COLLECT_SET(big) AS lb,
    COUNT_DISTINCT(name) AS cn, COUNT_DISTINCT(d) AS cd, COUNT_DISTINCT(price) AS cp,
    COUNT_DISTINCT(place) AS cs FROM ordered GROUP BY id;
CREATE TABLE tops AS SELECT id, TOPK(n, 3) AS tn, TOPK(d, 2) AS td, TOPK(price, 2) AS tp,
    TOPK(name, 2) AS ts, TOPK(big, name, 2) AS tm, TOPKDISTINCT(n, 3) AS dn,
    TOPKDISTINCT(name, 2) AS ds FROM ordered GROUP BY id;
CREATE TABLE offsets AS SELECT id, EARLIEST_BY_OFFSET(name) AS e, LATEST_BY_OFFSET(name) AS l,
    EARLIEST_BY_OFFSET(d, false) AS ed, LATEST_BY_OFFSET(d, false) AS ld,
    EARLIEST_BY_OFFSET(price, 2) AS e2, LATEST_BY_OFFSET(place, 2) AS l2,
    LATEST_BY_OFFSET(tags) AS lt, LATEST_BY_OFFSET(moment) AS la, LATEST_BY_OFFSET(raw) AS lr
  FROM ordered GROUP BY id;
CREATE TABLE tallies AS SELECT id, HISTOGRAM(name) AS h, ATTR(ok) AS a, ATTR(id) AS same,
    ATTR(price) AS p FROM ordered GROUP BY id;
CREATE TABLE spread AS SELECT id, STDDEV_SAMPLE(n) AS sn, STDDEV_SAMP(d) AS sd,
    STDDEV_SAMPLE(big) AS sb, CORRELATION(n, big) AS cnb, CORRELATION(d, n) AS cdn
  FROM ordered GROUP BY id;
CREATE TABLE own AS SELECT id, LONGEST(name) AS longest, LONGEST(UCASE(name)) AS upper
  FROM ordered GROUP BY id;
CREATE TABLE computed AS SELECT id, SUM(n * 2 + 1) AS s, MAX(LEN(name)) AS m,
    COLLECT_LIST(CONCAT(name, '-', CAST(n AS STRING))) AS l, AVG(d * 0.5) AS a,
    MIN(COALESCE(name, '?')) AS low, COUNT_DISTINCT(SUBSTRING(name, 1, 1)) AS c,
    COUNT(place->zip) AS z, SUM(CAST(price AS DOUBLE)) AS sp
  FROM ordered WHERE n IS NOT NULL GROUP BY id HAVING COUNT(*) > 1;

-- Windows.
CREATE TABLE in_tens AS SELECT id, COUNT(*) AS c, SUM(n) AS s FROM events
  WINDOW TUMBLING (SIZE 10 SECONDS, RETENTION 1 DAY, GRACE PERIOD 1 HOUR) GROUP BY id;
CREATE TABLE in_twenties AS SELECT UCASE(name) AS k, COUNT(*) AS c, MAX(price) AS m FROM events
  WINDOW TUMBLING (SIZE 20 SECONDS, RETENTION 1 DAY, GRACE PERIOD 1 HOUR)
  WHERE n >= 0 GROUP BY UCASE(name);
CREATE TABLE in_minutes WITH (KEY_FORMAT='JSON') AS SELECT name, ok, COUNT(*) AS c FROM ordered
  WINDOW TUMBLING (SIZE 1 MINUTE, RETENTION 1 DAY, GRACE PERIOD 1 HOUR) GROUP BY name, ok;
CREATE TABLE in_hops AS SELECT name, COUNT(*) AS c, AVG(d) AS a FROM events
  WINDOW HOPPING (SIZE 20 SECONDS, ADVANCE BY 5 SECONDS, RETENTION 1 DAY, GRACE PERIOD 1 HOUR)
  GROUP BY name;
CREATE TABLE sessions AS SELECT id, COUNT(*) AS c, SUM(n) AS s FROM ordered
  WINDOW SESSION (8 SECONDS, RETENTION 1 DAY, GRACE PERIOD 1 HOUR) GROUP BY id;
CREATE TABLE sessions_case AS SELECT CASE WHEN n > 5 THEN 'x' ELSE 'y' END AS k,
    COLLECT_LIST(name) AS l FROM ordered
  WINDOW SESSION (6 SECONDS, RETENTION 1 DAY, GRACE PERIOD 1 HOUR)
  GROUP BY CASE WHEN n > 5 THEN 'x' ELSE 'y' END;
CREATE TABLE final_tumbling AS SELECT id, COUNT(*) AS c, LATEST_BY_OFFSET(name) AS l FROM ordered
  WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY id EMIT FINAL;
CREATE TABLE final_session AS SELECT id, COUNT(*) AS c FROM ordered
  WINDOW SESSION (4 SECONDS, GRACE PERIOD 2 SECONDS) GROUP BY id EMIT FINAL;

-- Tables over tables.
CREATE TABLE by_city AS SELECT city, COUNT(*) AS c, SUM(age) AS s, COLLECT_LIST(id) AS l
  FROM people GROUP BY city;
CREATE TABLE by_capital AS SELECT UCASE(city) AS k, COUNT(*) AS c, AVG(age) AS a, HISTOGRAM(boss) AS h
  FROM people WHERE age > 20 GROUP BY UCASE(city);
CREATE TABLE counted AS SELECT c AS k, COUNT(*) AS groups FROM by_string GROUP BY c;
CREATE TABLE grown AS SELECT id, UCASE(city) AS city, age + 1 AS next FROM people WHERE age > 30;

-- Joins.
CREATE STREAM settled AS SELECT e.id AS id, e.n * 2 AS twice, UCASE(p.kind) AS kind, p.paid AS paid
  FROM ordered e LEFT JOIN payments p WITHIN 20 SECONDS GRACE PERIOD 10 SECONDS ON e.id = p.id;
CREATE STREAM both_sides AS SELECT ROWKEY AS k, e.name AS name, p.paid AS paid FROM ordered e
  FULL OUTER JOIN payments p WITHIN 5 SECONDS ON UCASE(e.id) = UCASE(p.id);
CREATE STREAM lived AS SELECT e.id AS id, e.n + p.age AS total, LCASE(p.city) AS city
  FROM ordered e LEFT JOIN people p ON e.id = p.id WHERE e.n > 1;
CREATE STREAM placed AS SELECT c.city AS k, e.name AS name, c.country AS country
  FROM ordered e JOIN cities c ON e.place->city = c.city;
CREATE TABLE paired AS SELECT ROWKEY AS id, p.age * 2 AS twice, s.c AS c FROM people p
  FULL OUTER JOIN by_string s ON p.id = s.id;
CREATE TABLE housed AS SELECT p.id AS id, p.age AS age, UCASE(c.country) AS country FROM people p
  LEFT JOIN cities c ON p.city = c.city;
CREATE TABLE ruled AS SELECT p.id AS id, c.area * 2 AS area FROM people p
  JOIN cities c ON UCASE(p.city) = c.city WHERE p.age > 20;
CREATE STREAM once WITH (DEDUPLICATE_WITHIN='1 HOUR') AS
  SELECT UCASE(name) AS k, n FROM ordered WHERE n < 9 PARTITION BY UCASE(name);

-- Without state.
CREATE STREAM projected AS SELECT id, n + 1 AS more, n / 2 AS half, big * 3 AS three, d / 3 AS third,
    price * price AS square, UCASE(name) AS upper, LEN(name) AS length, ok AND n > 2 AS both,
    CAST(d AS STRING) AS text, CAST(price AS DOUBLE) AS pd, place->city AS city, tags[1] AS tag,
    raw AS raw, day AS day, moment AS moment, ARRAY_LENGTH(nums) AS count, CAST(n AS DECIMAL(6, 2)) AS dec,
    FORMAT_TIMESTAMP(moment, 'yyyy-MM-dd HH:mm:ss.SSS') AS told, d AS d, clock AS clock,
    CASE WHEN n > 5 THEN 'x' END AS maybe, nums AS nums, TRANSFORM(nums, x => x * 2) AS doubled,
    REGEXP_SPLIT_TO_ARRAY(name, '[ ,]') AS words, INITCAP(name) AS capital, -d AS minus
  FROM events WHERE name NOT LIKE 'skip%' OR name IS NULL;
CREATE STREAM rekeyed AS SELECT UCASE(name) AS k, n, id AS was FROM events
  WHERE REGEXP_REPLACE(name, '[0-9]', '') LIKE '%b%' PARTITION BY UCASE(name);
CREATE STREAM numbered_again WITH (KEY_FORMAT='JSON') AS SELECT n * 10 AS k, place->zip AS z, big
  FROM events PARTITION BY n * 10, place->zip;
CREATE STREAM exploded AS SELECT id, EXPLODE(tags) AS tag, EXPLODE(nums) AS num FROM events;
CREATE TABLE tagged AS SELECT tag, COUNT(*) AS c, SUM(num) AS s FROM exploded GROUP BY tag;
