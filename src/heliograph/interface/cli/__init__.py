"""The command line: a file per command, main.py mounts them."""
