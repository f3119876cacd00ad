-- Streaming tables, a table with a flow of its own, a temporary view, and views over tables and views
CREATE STREAMING TABLE heavy COMMENT 'More than fifty tonnes' AS SELECT ship, tonnes FROM STREAM arrivals WHERE tonnes > 50;

CREATE TEMPORARY VIEW light_ones AS SELECT ship, tonnes FROM STREAM(arrivals) WHERE tonnes <= 50;

CREATE STREAMING TABLE light;

CREATE FLOW into_light AS INSERT INTO light BY NAME SELECT ship, 'light' AS class FROM STREAM light_ones;

CREATE MATERIALIZED VIEW per_berth AS SELECT berth, count(*) AS calls FROM arrivals GROUP BY berth;

CREATE MATERIALIZED VIEW quiet AS SELECT berth FROM per_berth WHERE calls = 1
