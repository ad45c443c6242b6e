"""The demo: two real clusters, a backlog, the mirror on Spark, a live producer, a killed lane, a verified copy."""
