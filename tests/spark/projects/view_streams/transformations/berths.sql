CREATE STREAMING TABLE berths AS
SELECT berth, calls FROM STREAM per_berth;
