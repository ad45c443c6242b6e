"""A model of the broker, and the copier in a world made of it: faults by seed, judged by one model of P1 to P4."""
