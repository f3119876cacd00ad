"""What no plan can exceed, so that a user sees how much could be gained."""
