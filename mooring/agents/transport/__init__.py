"""Transport between the members of a project: frames, certificates, connections. Without protocols."""
