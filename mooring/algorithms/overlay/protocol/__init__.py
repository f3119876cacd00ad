"""Adaptive overlays between sites: resource directory, network monitor, plan exchange, registration."""
