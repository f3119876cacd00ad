"""Sites held to CPU quotas with a generated pipeline on them (ROD paper, section 7)."""
