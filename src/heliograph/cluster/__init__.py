"""One Kafka cluster: connections, metadata, admin, properties."""
