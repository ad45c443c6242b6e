"""The pieces of reading heliograph.yaml; config_file.py is their only user."""
