from __future__ import annotations

import pytest

from heliograph.lab.jars import _download_error, kafka_libs
from heliograph.lab.runtime import own_errors
from heliograph.model.errors import UsageError


@pytest.mark.parametrize("version", ["0.8.1.1", "0.11.0", "3.2.3.1", "4", "latest", "4.3.1-rc1", "../4.3.1"])
def test_a_version_the_lab_cannot_run_is_refused_before_any_download(version: str) -> None:
    with pytest.raises(UsageError) as raised:
        kafka_libs(version)
    assert "4.3.1" in raised.value.hint


def test_no_network_is_told_from_a_version_that_does_not_exist() -> None:
    missing = "\tUNRESOLVED DEPENDENCIES\n:: org.apache.kafka#kafka_2.13;9.9.9: not found"
    offline = "WARN: Host example.invalid not found. url=...\n" + missing
    assert "there is no" in _download_error("kafka:9.9.9", missing).message
    assert "cannot be reached" in _download_error("kafka:4.3.1", offline).message


def test_a_brokers_errors_are_picked_from_its_output() -> None:
    output = "INFO up\n[main] ERROR kafka.Kafka - bad\njava.net.BindException: in use\n\tat x.y\nINFO end\n"
    assert own_errors(output).split("\n") == [
        "  [main] ERROR kafka.Kafka - bad",
        "  java.net.BindException: in use",
    ]


def test_output_without_errors_is_shown_by_its_last_lines() -> None:
    assert own_errors("one\ntwo\nthree\n", most=2) == "  two\n  three"
