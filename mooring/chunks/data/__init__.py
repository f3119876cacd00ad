"""Array frames and what happens to their cells: operators, chunks with headers, scatter and gather."""
