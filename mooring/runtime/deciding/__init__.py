"""The protocols that decide at the sites, as agents host them: each is loaded only where it is asked for."""
