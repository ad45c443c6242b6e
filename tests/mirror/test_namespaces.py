"""An executor cut off from the driver, from the source and from the target, for 30 s each (P2, P7).

Everything runs in network namespaces of its own: this module starts itself again inside one of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.namespaces import allowed, two_namespaces

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.faults, pytest.mark.slow]

DRIVER, SOURCE, TARGET = "10.77.0.1", "10.77.0.2", "10.77.0.3"
SCENES = Path(__file__).parent / "cut_off_scenes.py"
LIMIT_S = 600.0


@pytest.mark.skipif(not allowed(), reason="making network namespaces needs root and iproute2")
@pytest.mark.parametrize("from_whom", ["driver", "source", "target"])
def test_an_executor_that_is_cut_off_does_no_harm(from_whom: str) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="h-") as place,  # short: Unix sockets live in it
        two_namespaces([DRIVER, SOURCE, TARGET]) as both,
    ):
        environment = {**os.environ, "HELIOGRAPH_HERE": both.here, "HELIOGRAPH_THERE": both.there}
        inner = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(SCENES), "-k", from_whom]
        done = subprocess.run(
            [*both.prefix(both.here), *inner, f"--basetemp={place}/t"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        assert "1 passed" in done.stdout
