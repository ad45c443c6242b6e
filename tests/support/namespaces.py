"""Two network namespaces with a cable between them: "here" with a few addresses, "there" with one. Needs root.

Owns the namespaces, which are gone after it, and the cuts: `cut` makes "there" unable to reach an address, silently, as
when a network is broken. Must not know what runs in them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

THERE = "10.77.0.100"


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespaces:
    here: str
    there: str

    def prefix(self, name: str) -> list[str]:
        """What a command is begun with to be in this namespace."""
        return [_ip(), "netns", "exec", name]

    @contextmanager
    def cut(self, address: str) -> Iterator[None]:
        """Nothing gets from there to this address meanwhile."""
        route = ["route", "add", "blackhole", f"{address}/32"]
        _run(*self.prefix(self.there), _ip(), *route)
        try:
            yield
        finally:
            _run(*self.prefix(self.there), _ip(), "route", "del", *route[2:])

    def connections_to(self, address: str, port: int) -> int:
        """Established TCP connections from there to this address."""
        wanted = f"{int.from_bytes(bytes(map(int, address.split('.'))), 'little'):08X}:{port:04X}"
        table = subprocess.run(
            [*self.prefix(self.there), "cat", "/proc/net/tcp", "/proc/net/tcp6"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        rows = [line.split() for line in table.splitlines()]
        return sum(len(row) > 3 and row[2].endswith(wanted) and row[3] == "01" for row in rows)


def allowed() -> bool:
    return os.geteuid() == 0 and shutil.which("ip", path=_PATH) is not None


@contextmanager
def two_namespaces(addresses: list[str]) -> Iterator[Namespaces]:
    """`addresses` are those of here."""
    number = os.getpid()
    both = Namespaces(here=f"hg-here-{number}", there=f"hg-there-{number}")
    ends = (f"hgh{number}", f"hgt{number}")
    try:
        for name in (both.here, both.there):
            _run(_ip(), "netns", "add", name)
            _run(_ip(), "-n", name, "link", "set", "lo", "up")
        _run(
            _ip(),
            "-n",
            both.here,
            "link",
            "add",
            ends[0],
            "type",
            "veth",
            "peer",
            ends[1],
            "netns",
            both.there,
        )
        for address in addresses:
            _run(_ip(), "-n", both.here, "addr", "add", f"{address}/24", "dev", ends[0])
        _run(_ip(), "-n", both.there, "addr", "add", f"{THERE}/24", "dev", ends[1])
        _run(_ip(), "-n", both.here, "link", "set", ends[0], "up")
        _run(_ip(), "-n", both.there, "link", "set", ends[1], "up")
        yield both
    finally:
        for name in (both.here, both.there):
            subprocess.run([_ip(), "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"


def _ip() -> str:
    found = shutil.which("ip", path=_PATH)
    assert found is not None, "iproute2 is not installed"
    return found


def _run(*command: str) -> None:
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
