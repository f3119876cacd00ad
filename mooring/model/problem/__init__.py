"""What is to be placed and where it may go: streams, operators, queries, sites, network, files."""
