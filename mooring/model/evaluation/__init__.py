"""What a placement is worth: one set of metrics for all policies, and why it is as good as it is."""
