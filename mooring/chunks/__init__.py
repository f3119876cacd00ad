"""How finely an operator's arrays are cut, and which site gets which chunk."""
