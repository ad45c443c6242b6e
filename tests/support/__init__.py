"""What tests of many folders share: an independent judge of a mirror, and workloads to mirror."""
