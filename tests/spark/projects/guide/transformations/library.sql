CREATE MATERIALIZED VIEW large_ones AS SELECT order_id, books FROM large_loans;

CREATE STREAMING TABLE returned;

CREATE FLOW returns AS INSERT INTO returned BY NAME SELECT order_id, reader FROM STREAM loans WHERE books = 1;

CREATE TEMPORARY VIEW towns AS SELECT DISTINCT town FROM readers;

CREATE MATERIALIZED VIEW town_count AS SELECT count(*) AS towns FROM towns;
