"""Source partition to target partition; knows neither Spark nor the CLI."""
