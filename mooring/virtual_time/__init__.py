"""Machines of many sites in virtual time, in an order that repeats."""
