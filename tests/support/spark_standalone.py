"""A Spark standalone cluster: a master and workers as processes of their own, on loopback.

As on machines of their own they know nothing of this Python's environment: Spark's home is a copy elsewhere, and no
variable of ours is passed on.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import psutil
import pyspark

from heliograph.lab.java import find_java
from heliograph.lab.settings import free_ports

START_LIMIT_S = 120.0  # three JVMs, on a machine that may be busy
POLL_S = 0.2
# What a plain system has: no virtual environment's bin, no PYTHONPATH, no PYSPARK_PYTHON.
PLAIN_PATH = "/usr/local/bin:/usr/bin:/bin"
NOT_SPARKS = ("site-packages", "__pycache__", "examples")


class SparkStandalone:
    """`url` is the master's; `workers` are the workers' process ids.

    `places`: for each worker the address it has, and what its command is begun with (to be in a network namespace).
    """

    def __init__(
        self,
        directory: Path,
        *,
        workers: int,
        cores: int = 1,
        host: str = "127.0.0.1",
        places: Sequence[tuple[str, Sequence[str]]] = (),
    ) -> None:
        self._host = host
        self._places = list(places) or [(host, ())] * workers
        self._directory = directory
        self._count = workers
        self._cores = cores
        self._processes: list[subprocess.Popen[bytes]] = []
        self._port, self._ui_port = free_ports(2)
        self._home = directory / "spark"

    @property
    def url(self) -> str:
        return f"spark://{self._host}:{self._port}"

    @property
    def workers(self) -> list[int]:
        return [process.pid for process in self._processes[1:]]

    def executors_of(self, worker: int) -> list[psutil.Process]:
        """The processes a worker has started, and theirs: executors, and the Python of their lanes."""
        return psutil.Process(worker).children(recursive=True)

    def kill(self, worker: int) -> None:
        """`kill -9` of a worker and of all that it has started, as when a machine is gone."""
        family = [psutil.Process(worker), *self.executors_of(worker)]
        for number in (
            signal.SIGSTOP,
            signal.SIGKILL,
        ):  # stopped first: none outlives another by its own means
            for process in family:
                os.kill(process.pid, number)
        psutil.wait_procs(family, timeout=START_LIMIT_S)

    def __enter__(self) -> Self:
        _copy_spark(self._home)
        try:
            ports = ("--port", str(self._port), "--webui-port", str(self._ui_port))
            self._start("master.Master", self._host, (), *ports)
            self._await_workers(0)
            for address, prefix in self._places:
                self._start(
                    "worker.Worker",
                    address,
                    prefix,
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

    def _start(self, name: str, address: str, prefix: Sequence[str], *arguments: str) -> None:
        work = self._directory / f"{name}-{len(self._processes)}"
        work.mkdir()
        command = [
            *prefix,
            str(self._home / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{name}",
            "--host",
            address,
            *arguments,
        ]
        environment = {
            "PATH": PLAIN_PATH,
            "HOME": str(work),
            "JAVA_HOME": str(find_java()),
            "SPARK_HOME": str(self._home),
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
            with urllib.request.urlopen(f"http://{self._host}:{self._ui_port}/json/", timeout=2) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, ValueError, KeyError):
            return None


def _copy_spark(home: Path) -> None:
    """Spark as a distribution has it, from the one inside PySpark; linked where the file system can."""
    shutil.copytree(
        Path(pyspark.__file__).parent,
        home,
        ignore=shutil.ignore_patterns(*NOT_SPARKS),
        copy_function=_link_or_copy,
    )


def _link_or_copy(source: str, copy: str) -> None:
    try:
        os.link(os.path.realpath(source), copy)
    except OSError:
        shutil.copy2(source, copy)
