"""Where people find what a pipeline has stored: its tables, the files they are made of, and catalogs."""
