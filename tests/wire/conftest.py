"""kafka-python, the independent judge of our codecs, imported before warnings count as errors; and Hypothesis
without its deadline, which on a busy machine would fail a test for the machine's sake; and the kernels, loaded."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import settings

from heliograph.wire.kernels.loading import Kernels, wait

settings.register_profile("no-deadline", settings.default, deadline=None)
settings.load_profile("no-deadline")

with warnings.catch_warnings():
    # On Python 3.11 and 3.12 its import uses a deprecated function of importlib.resources.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.protocol.consumer.fetch
    import kafka.protocol.producer.produce  # noqa: F401 (for the side effect: modules import it from here on)


@pytest.fixture(scope="session")
def kernels() -> Kernels:
    return wait()
