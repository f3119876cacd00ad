"""What every placement has to keep, as arrays for searches; how far one is from it, and how to mend it."""
