CREATE MATERIALIZED VIEW heaviest COMMENT 'A view over two views'
AS SELECT p.pier, p.tonnes, (SELECT count(*) FROM regulars) AS regulars
FROM per_pier p ORDER BY p.tonnes DESC LIMIT 1;
