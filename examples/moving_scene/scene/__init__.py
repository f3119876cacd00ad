"""A generated video whose busy region moves, and what is computed from it."""
