"""Real Kafka clusters on this machine, beside the layers."""
