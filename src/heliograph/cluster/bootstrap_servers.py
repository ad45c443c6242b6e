"""Addresses of brokers: `bootstrap.servers` as a value, and what cannot be an address. Resolves no name and opens no
connection.

A broker may advertise anything for its host. What is no host name must be found here: the resolver, the event loop and
OpenSSL refuse it each in its own way, by ValueError, TypeError or SSLError.
"""

from __future__ import annotations

import re

Address = tuple[str, int]

_ADDRESS = re.compile(
    r"(?:\[(?P<ipv6>[0-9a-fA-F:.%]+[\w.%-]*)\]|(?P<host>[\w.-]+)):(?P<port>\d{1,5})", re.ASCII
)

_MOST_HOST_BYTES = 255  # of a name that TLS can ask for; DNS has 253


def parse_servers(text: str) -> tuple[Address, ...]:
    """The addresses in their order; ValueError says which one is wrong."""
    servers = [part.strip() for part in text.split(",") if part.strip()]
    if not servers:
        raise ValueError("required: at least one host:port")
    return tuple(_address(server) for server in servers)


def format_servers(servers: tuple[Address, ...]) -> str:
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in servers)


def is_address(host: str, port: int) -> bool:
    """Whether a connection to it can be tried. The name need not exist."""
    return 1 <= port <= 65535 and _is_host(host)


def _is_host(host: str) -> bool:
    if not 0 < len(host) <= _MOST_HOST_BYTES or "\0" in host:
        return False
    try:
        encoded = host.encode("idna")  # each label has 1 to 63 bytes
    except UnicodeError:
        return False
    return len(encoded) <= _MOST_HOST_BYTES


def _address(text: str) -> Address:
    found = _ADDRESS.fullmatch(text)
    if found is None:
        ipv6 = text.count(":") > 1 and "://" not in text
        raise ValueError(f"{text!r} is not host:port" + (" (write IPv6 as [::1]:9092)" if ipv6 else ""))
    host, port = found["ipv6"] or found["host"], int(found["port"])
    if not 1 <= port <= 65535:
        raise ValueError(f"{text!r} has no port between 1 and 65535")
    if not is_address(host, port):
        raise ValueError(f"{text!r} is not host:port: {host!r} is not a host name")
    return host, port
