"""Machines of many sites in virtual time: messages, faults, an order that repeats."""
