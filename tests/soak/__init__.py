"""Hours of faults on real clusters, by seed, judged at the end: `python -m tests.soak --minutes 60 --seed 1`."""
