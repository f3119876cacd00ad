"""How members of a project talk to each other: frames, certificates, connections. It knows no protocol."""
