"""What several tests of whole mirrors ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.version_before import NotInThisClone, unpack_before


@pytest.fixture(scope="session")
def code_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the version before this one."""
    try:
        return unpack_before(tmp_path_factory.mktemp("before"))
    except NotInThisClone as missing:
        pytest.skip(str(missing))
