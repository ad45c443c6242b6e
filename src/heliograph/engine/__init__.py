"""The only place that imports pyspark: session, lanes' jobs, control line."""
