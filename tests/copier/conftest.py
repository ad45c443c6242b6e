"""The kernels, loaded before any test: whether a batch is merged must not depend on how long they took."""

from __future__ import annotations

import pytest

from heliograph.wire.kernels.loading import Kernels, wait


@pytest.fixture(scope="session", autouse=True)
def kernels() -> Kernels:
    return wait()
