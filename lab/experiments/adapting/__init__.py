"""Ways of adapting to change, held against never moving and against knowing what comes."""
