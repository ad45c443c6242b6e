"""Heliograph: Kafka cross-cluster mirroring on Spark. See docs/DESIGN.md for the map of the code."""

__version__ = "0.1.0"
