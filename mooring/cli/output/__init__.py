"""Values to tables, trees, live views and JSON documents."""
