"""Every algorithm in a folder of its own, and the catalogue that names them."""
