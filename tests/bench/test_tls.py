"""`script/bench --tls`: every mirror comes in by TLS 1.3 and in no other way, and aims and tables say so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, cast

import pytest

from bench.aims import bounds, judge
from bench.arguments import parser, scope_of
from bench.contender import CopyJob
from bench.heliograph_run import config
from bench.mirror_maker import properties
from bench.names import MM2, OURS
from bench.report import Run
from bench.tables import workload_table
from bench.tls import TlsFiles, tls_files
from heliograph.cluster.security.security_properties import parse_security
from heliograph.cluster.security.settings import SecurityProtocol
from heliograph.lab.cluster import LabCluster
from heliograph.lab.listeners import listener_settings

from .test_aims import copied, found

JOB = CopyJob(workload="tiny", label="mm2-1", topics=("tiny",), partitions=4)


class TwoBrokers:
    """As much of a cluster as its clients' properties are made of."""

    def servers(self, listener: str) -> str:
        return f"localhost:1-{listener},localhost:2-{listener}"


@pytest.fixture
def files() -> Iterator[TlsFiles]:
    with tls_files() as made:
        yield made


@pytest.fixture
def access(files: TlsFiles) -> dict[str, str]:
    return files.client_properties(cast(LabCluster, TwoBrokers()))


def test_the_listener_and_its_clients_speak_tls_1_3_alone(files: TlsFiles, access: dict[str, str]) -> None:
    settings = listener_settings(files.listener)
    assert files.listener.protocol == "SSL"
    assert settings["listener.name.tls.ssl.enabled.protocols"] == "TLSv1.3"
    assert access["ssl.enabled.protocols"] == "TLSv1.3"
    assert access["bootstrap.servers"] == "localhost:1-TLS,localhost:2-TLS"


def test_heliograph_understands_what_it_is_given(access: dict[str, str]) -> None:
    clusters = cast(dict[str, Any], config(JOB, source=access, target=access)["clusters"])
    for name in ("source", "target"):
        security = parse_security(clusters[name])
        assert security.protocol is SecurityProtocol.SSL
        assert security.tls is not None
        assert security.tls.protocols == ("TLSv1.3",)


def test_mirror_maker_has_the_same_for_both_clusters(access: dict[str, str]) -> None:
    given = properties(JOB, source=access, target=access)
    for alias in ("mm2-1", "target"):
        assert {key: given[f"{alias}.{key}"] for key in access} == access


def test_a_run_under_tls_has_aims_of_its_own() -> None:
    aims = judge([copied(MM2, 100, cpu_s=10), copied(OURS, 300, cpu_s=2)], tls=True)
    assert found(aims, "tiny: records/s against MirrorMaker 2") == ("3 x", True)
    assert found(aims, "tiny: CPU against MirrorMaker 2") == ("1/5", True)
    aims = judge([copied(MM2, 100, cpu_s=10), copied(OURS, 299, cpu_s=2.1)], tls=True)
    assert found(aims, "tiny: records/s against MirrorMaker 2") == ("2.99 x", False)
    assert found(aims, "tiny: CPU against MirrorMaker 2") == ("1/4.76", False)


def test_what_is_no_throughput_is_aimed_at_as_in_plain_text() -> None:
    throughput = {"records_per_s", "cpu_copy_s"}
    plain, sealed = (
        [each for each in bounds(replicated=False, tls=tls) if each.figure not in throughput]
        for tls in (False, True)
    )
    assert plain == sealed


@pytest.mark.parametrize(("options", "tls"), [(["--tls"], True), ([], False)])
def test_scope_aims_and_tables_of_a_run_say_whether_it_was_under_tls(options: list[str], tls: bool) -> None:
    run = Run(scope=asdict(scope_of(parser([]).parse_args(options))), copies=[copied(OURS, 300)])
    assert run.scope["tls"] is run.tls is tls
    (aim,) = (each for each in run.aims if each.name.startswith("tiny: records/s against MirrorMaker 2"))
    assert aim.wanted == (">= 3 x" if tls else ">= 4 x")
    title = workload_table("tiny", run.results, None, tls=run.tls).title
    assert ("TLS 1.3 on both sides" in str(title)) is tls
