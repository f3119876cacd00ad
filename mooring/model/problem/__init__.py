"""The problem: streams, operators, queries, sites, network, files."""
