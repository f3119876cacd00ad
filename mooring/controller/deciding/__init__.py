"""An observation in, a proposal out: deciders by name, and the guards that judge what they propose."""
