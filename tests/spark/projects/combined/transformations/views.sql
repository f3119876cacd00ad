CREATE STREAMING TABLE heavy AS SELECT ship, berth FROM STREAM default.arrivals WHERE tonnes > ${harbour.least};

CREATE MATERIALIZED VIEW per_pier AS
SELECT pier, count(*) AS calls, sum(tonnes) AS tonnes FROM arrivals JOIN piers USING (berth) GROUP BY pier;

CREATE MATERIALIZED VIEW busiest AS
SELECT pier, (SELECT count(*) FROM heavy) AS heavy FROM per_pier WHERE calls = (SELECT max(calls) FROM per_pier);
