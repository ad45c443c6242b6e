"""A Spark standalone cluster: a master and workers as processes of their own, on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Self

import psutil
import pyspark

from heliograph.lab.java import find_java
from heliograph.lab.settings import free_ports

START_LIMIT_S = 60.0
POLL_S = 0.2


class SparkStandalone:
    """`url` is the master's; `workers` are the workers' process ids."""

    def __init__(self, directory: Path, *, workers: int, cores: int = 1) -> None:
        self._directory = directory
        self._count = workers
        self._cores = cores
        self._processes: list[subprocess.Popen[bytes]] = []
        self._port, self._ui_port = free_ports(2)

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    @property
    def workers(self) -> list[int]:
        return [process.pid for process in self._processes[1:]]

    def __enter__(self) -> Self:
        try:
            self._start("master.Master", "--port", str(self._port), "--webui-port", str(self._ui_port))
            self._await_workers(0)
            for _ in range(self._count):
                self._start(
                    "worker.Worker",
                    "--cores",
                    str(self._cores),
                    "--memory",
                    "1g",
                    "--webui-port",
                    "0",
                    self.url,
                )
            self._await_workers(self._count)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.kill()
            process.wait()
            for member in family:
                if member.is_running():
                    member.kill()

    def _start(self, name: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        work = self._directory / f"{name}-{len(self._processes)}"
        work.mkdir()
        command = [
            str(home / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{name}",
            "--host",
            "127.0.0.1",
            *arguments,
        ]
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_java()),
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_WORKER_DIR": str(work),
            "SPARK_LOCAL_DIRS": str(work),
        }
        with (work / "log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=work)
            )

    def _await_workers(self, workers: int) -> None:
        """Until the master's own page says that so many workers are alive."""
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            if self._alive_workers() == workers:
                return
            time.sleep(POLL_S)
        raise TimeoutError(f"no {workers} workers in {START_LIMIT_S} s; see {self._directory}")

    def _alive_workers(self) -> int | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ui_port}/json/", timeout=2) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, ValueError, KeyError):
            return None
