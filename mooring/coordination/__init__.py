"""Proposals of machines at sites, and the one mover that answers them."""
