"""The edges: CLI and config files."""
