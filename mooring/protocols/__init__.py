"""The decentralised parts, sans-IO: per-site state machines that see messages and time as data."""
