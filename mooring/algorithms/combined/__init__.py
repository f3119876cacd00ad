"""The search for the plan of least cost by all preferences at once, and the policy that needs no choice."""
