-- Counts and mean sizes by source and destination, and of everything.

CREATE STREAMING TABLE pair_seconds AS
SELECT window(at, '1 second').start AS since, source, destination,
       count(*) AS packets, sum(size_bytes) AS bytes, sum(size_bytes) / count(*) AS mean_bytes
FROM STREAM timed_oslo
GROUP BY window(at, '1 second'), source, destination;

CREATE STREAMING TABLE pair_minutes AS
SELECT window(at, '1 minute').start AS since, source, destination,
       count(*) AS packets, sum(size_bytes) AS bytes, sum(size_bytes) / count(*) AS mean_bytes
FROM STREAM timed_packets
GROUP BY window(at, '1 minute'), source, destination;

CREATE STREAMING TABLE totals AS
SELECT window(at, '1 second').start AS since,
       count(*) AS packets, sum(size_bytes) AS bytes, sum(size_bytes) / count(*) AS mean_bytes
FROM STREAM timed_packets
GROUP BY window(at, '1 second');
