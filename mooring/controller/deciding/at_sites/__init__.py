"""Deciders whose machines are at the sites: what these are told, and what becomes of what they propose."""
