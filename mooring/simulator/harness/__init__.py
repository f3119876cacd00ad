"""Protocols in virtual time: messages, faults, invariants, and failures made small."""
