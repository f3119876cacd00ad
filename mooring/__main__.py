"""`python -m mooring` is the command `mooring`."""

from mooring.cli.main import entry

if __name__ == "__main__":
    entry()
