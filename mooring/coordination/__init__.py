"""How machines at sites propose moves, and how one mover answers them."""
