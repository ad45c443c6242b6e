"""`bootstrap.servers`: host:port,host:port as a value. Resolves no name and opens no connection."""

from __future__ import annotations

import re

Address = tuple[str, int]

_ADDRESS = re.compile(
    r"(?:\[(?P<ipv6>[0-9a-fA-F:.%]+[\w.%-]*)\]|(?P<host>[\w.-]+)):(?P<port>\d{1,5})", re.ASCII
)


def parse_servers(text: str) -> tuple[Address, ...]:
    """The addresses in their order; ValueError says which one is wrong."""
    servers = [part.strip() for part in text.split(",") if part.strip()]
    if not servers:
        raise ValueError("required: at least one host:port")
    return tuple(_address(server) for server in servers)


def format_servers(servers: tuple[Address, ...]) -> str:
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in servers)


def _address(text: str) -> Address:
    found = _ADDRESS.fullmatch(text)
    if found is None:
        ipv6 = text.count(":") > 1 and "://" not in text
        raise ValueError(f"{text!r} is not host:port" + (" (write IPv6 as [::1]:9092)" if ipv6 else ""))
    port = int(found["port"])
    if not 1 <= port <= 65535:
        raise ValueError(f"{text!r} has no port between 1 and 65535")
    return found["ipv6"] or found["host"], port
