-- Statements that change what is there, between the records.

--@test: another filter and more columns, from the next record on
CREATE STREAM a (k INT KEY, v INT, w INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');
CREATE STREAM o AS SELECT k, v FROM a;
INSERT INTO a VALUES (1, 5, 50);
ASSERT VALUES o (k, v) VALUES (1, 5);
CREATE OR REPLACE STREAM o AS SELECT * FROM a WHERE v > 6;
INSERT INTO a VALUES (2, 6, 60);
INSERT INTO a VALUES (3, 7, 70);
ASSERT VALUES o (k, v, w) VALUES (3, 7, 70);

--@test: what was counted under another filter stays counted, and those who read it go on
CREATE STREAM a (k INT KEY, v INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');
CREATE TABLE n AS SELECT k, SUM(v) AS s FROM a WHERE v > 0 GROUP BY k;
CREATE TABLE twice AS SELECT k, s * 2 AS t FROM n;
INSERT INTO a VALUES (1, 5);
CREATE OR REPLACE TABLE n AS SELECT k, SUM(v) AS s, AS_VALUE(k) AS kk FROM a WHERE v > 9 GROUP BY k;
INSERT INTO a VALUES (1, 6);
INSERT INTO a VALUES (1, 10);
ASSERT VALUES n (k, s) VALUES (1, 5);
ASSERT VALUES n (k, s, kk) VALUES (1, 15, 1);
ASSERT VALUES twice (k, t) VALUES (1, 10);
ASSERT VALUES twice (k, t) VALUES (1, 30);

--@test: a query reads what comes after its creation
CREATE STREAM a (k INT KEY, v INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');
CREATE STREAM o AS SELECT * FROM a;
INSERT INTO a VALUES (1, 1);
CREATE STREAM p AS SELECT * FROM o;
INSERT INTO a VALUES (2, 2);
ASSERT VALUES p (k, v) VALUES (2, 2);
ASSERT VALUES o (k, v) VALUES (1, 1);

--@test: dropped and created anew it counts from nothing
CREATE STREAM a (k INT KEY, v INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');
CREATE TABLE n AS SELECT k, COUNT(*) AS c FROM a GROUP BY k;
INSERT INTO a VALUES (1, 1);
DROP TABLE n;
INSERT INTO a VALUES (1, 2);
CREATE TABLE n AS SELECT k, COUNT(*) AS c FROM a GROUP BY k;
INSERT INTO a VALUES (1, 3);
ASSERT VALUES n (k, c) VALUES (1, 1);
ASSERT VALUES n (k, c) VALUES (1, 1);

--@test: a join is not replaced
--@expected.error: io.confluent.ksql.util.KsqlException
--@expected.message: Upgrades not yet supported for StreamTableJoin
CREATE STREAM a (k INT KEY, v INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');
CREATE TABLE t (k INT PRIMARY KEY, x INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
CREATE STREAM j AS SELECT a.k, v, x FROM a JOIN t ON a.k = t.k;
CREATE OR REPLACE STREAM j AS SELECT a.k, v, x, v + 1 AS y FROM a JOIN t ON a.k = t.k;
