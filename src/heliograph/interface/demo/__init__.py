"""The demo: two real clusters, a workload, the mirror on Spark, a killed lane, a verified copy."""
