"""What every test may ask for: an event loop (`async def test_...`), two real clusters shared by the session, two
secured ones, and topic names nobody else has."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import signal
import uuid
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.secured_clusters import SecuredPair, start_secured_pair

ASYNC_LIMIT_S = 60.0  # the longest test without brokers takes a tenth of it: what takes longer hangs
ASYNC_KAFKA_LIMIT_S = 300.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests that take minutes each")
    parser.addoption("--fault-seeds", type=int, default=3, help="how many seeds tests of mixed faults run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without --slow the slow tests are left out, unless somebody names them by -m or by their own id."""
    named = any("::" in arg for arg in config.args)
    if config.getoption("--slow") or "slow" in config.getoption("-m") or named:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in set(slow)]


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt("SIGTERM")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """SIGTERM ends the session as Ctrl-C does: its clusters are taken down. Set before each test, because an event loop
    that handled the signal leaves it at its default, which ends the process with all its brokers still running."""
    signal.signal(signal.SIGTERM, _interrupt)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """An `async def` test runs on an event loop of its own, for a bounded time."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    limit_s = ASYNC_KAFKA_LIMIT_S if pyfuncitem.get_closest_marker("kafka") else ASYNC_LIMIT_S

    async def bounded() -> None:
        async with asyncio.timeout(limit_s):
            await pyfuncitem.obj(**wanted)

    asyncio.run(bounded())
    return True


@pytest.fixture(scope="session")
def source_cluster() -> Iterator[LabCluster]:
    with LabCluster.start(name="source") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def target_cluster() -> Iterator[LabCluster]:
    with LabCluster.start(name="target") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secured_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPair]:
    """Who changes a user or a certificate of it makes that good again."""
    with start_secured_pair(tmp_path_factory.mktemp("secured")) as pair:
        yield pair


@pytest.fixture(scope="session")
def unique_topic() -> Callable[[str], str]:
    """Makes topic names: `unique_topic("orders")` is another one at every call, in every session."""
    session = uuid.uuid4().hex[:8]
    numbers = itertools.count(1)
    return lambda stem: f"{stem}-{session}-{next(numbers)}"
