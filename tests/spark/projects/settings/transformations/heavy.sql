SET spark.sql.session.timeZone = America/Lima;

CREATE STREAMING TABLE heavy AS
SELECT ship, date_format(at, 'HH:mm') AS local FROM STREAM arrivals WHERE tonnes > ${harbour.least};
