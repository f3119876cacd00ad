"""What a definition says of a table beside its query: arguments in Python and SQL, columns, output modes."""
