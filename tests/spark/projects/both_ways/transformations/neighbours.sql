CREATE STREAMING TABLE neighbours AS
SELECT arrivals.ship, other.ship AS beside
FROM STREAM arrivals JOIN arrivals AS other ON arrivals.berth = other.berth AND arrivals.ship <> other.ship;
