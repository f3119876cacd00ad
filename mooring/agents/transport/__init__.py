"""Transport between the members of a project: frames, certificates, connections. It knows no protocol."""
