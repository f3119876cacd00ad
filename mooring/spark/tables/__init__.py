"""Access to stored tables: the list of tables, their files, and catalogs."""
