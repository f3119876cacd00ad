"""Sites and links as queues: tuples through a placement in virtual time."""
