"""The demo's last words: a few lines, made of the report that `--json` prints. Pure."""

from __future__ import annotations

from typing import Any

HOW = "kafka-python's consumer read both clusters: offset, timestamp, key, value and headers"


def sentences(report: dict[str, Any]) -> str:
    lines = [_verdict(report), _backlog(report["backlog"]), _live(report["live"]), _kill(report["kill"])]
    if report["first_difference"]:
        lines.append(f"first difference: {report['first_difference']}")
    return "\n".join([*lines, _time(report["seconds"], report["backlog"])])


def _verdict(report: dict[str, Any]) -> str:
    word = "IDENTICAL" if report["identical"] else "DIFFERENT"
    return (
        f"{word}: {report['records']:,} records in {report['partitions']} partitions compared,"
        f" {report['differences']:,} differences ({HOW})"
    )


def _backlog(backlog: dict[str, Any]) -> str:
    while_written = "" if backlog["written_before"] else ", while it was still being written"
    return (
        f"backlog:   {backlog['records']:,} records, {backlog['size_bytes'] / 1e6:,.0f} MB copied in"
        f" {backlog['copied_s']:.1f} s: {backlog['mb_per_s']:,.0f} MB/s,"
        f" {backlog['records_per_s']:,.0f} records/s{while_written}"
    )


def _live(live: dict[str, Any]) -> str:
    return (
        f"live:      {live['records']:,} records at {live['records_per_s']:,} a second; latency"
        f" p50 {live['p50_ms']:.1f} ms, p99 {live['p99_ms']:.1f} ms from send to receipt, in the"
        f" {live['measured_s']:.0f} s before the kill"
    )


def _kill(kill: dict[str, Any]) -> str:
    return (
        f"kill -9:   lane {kill['lane']}'s {kill['partitions']} partitions paused for {kill['pause_s']:.1f} s,"
        f" the others for {kill['others_pause_s']:.2f} s at most"
    )


def _time(seconds: dict[str, float], backlog: dict[str, Any]) -> str:
    laps = [f"{name} {taken:.1f}" for name, taken in seconds.items() if name != "total"]
    return (
        f"time:      {seconds['total']:.0f} s: {', '.join(laps)};"
        f" the backlog was written in {backlog['written_s']:.1f} s of it, beside Spark's start"
    )
