CREATE STREAMING TABLE archive.from_sql AS SELECT ship FROM STREAM `spark_catalog`.harbour.by_two_parts;

CREATE MATERIALIZED VIEW how_many AS SELECT count(*) AS berths FROM archive.by_three_parts;
