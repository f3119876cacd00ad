"""Network-aware placement (SBON): springs in a cost space, mapping, reuse, migration."""
