SET harbour.name = north;

CREATE STREAMING TABLE heavy AS
SELECT ship, '${harbour.name}' AS harbour, date_format(at, 'HH:mm') AS local FROM STREAM arrivals WHERE tonnes > ${harbour.least};
