"""Real Kerberos realms on this machine: one KDC each, an ordinary process on a loopback port with a directory of its
own.

Owns a realm's database, its krb5.conf and its keytabs. Must not know brokers or Heliograph. It needs Debian's
krb5-kdc and krb5-admin-server, but neither their services nor anything in /etc.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from heliograph.lab.settings import LOOPBACK, free_ports

PACKAGES = "apt install krb5-kdc krb5-admin-server krb5-user"
CLOCK_PACKAGE = "apt install faketime"
START_LIMIT_S = 20.0
POLL_S = 0.02
# Where Debian puts servers; not every user has it in PATH.
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))


def why_no_kdc() -> str:
    """Why tests with a KDC cannot run here; empty if they can."""
    missing = [each for each in ("krb5kdc", "kdb5_util", "kadmin.local", "kinit") if _program(each) is None]
    return f"no {', '.join(missing)} on this machine: {PACKAGES}" if missing else ""


def why_no_other_clock() -> str:
    """Why no KDC can have another time of day here; empty if one can."""
    return "" if _program("faketime") else f"no faketime on this machine: {CLOCK_PACKAGE}"


class Kdc:
    """A realm whose KDC runs from entering the context to leaving it.

    `ticket_life_s`: how long its tickets last. `clock`: its time of day, as faketime takes it (`+1h`); empty: ours.
    `domain`: whose hosts are in the realm, by krb5.conf.
    """

    def __init__(
        self, realm: str, directory: Path, *, domain: str = "", ticket_life_s: int = 3600, clock: str = ""
    ) -> None:
        self.realm = realm
        self.directory = directory
        self.krb5_conf = directory / "krb5.conf"
        self._domain = domain
        self._ticket_life_s = ticket_life_s
        self._clock = clock
        self._port = free_ports(1)[0]
        self.address = f"{LOOPBACK}:{self._port}"
        self._kdc_conf = directory / "kdc.conf"
        self._log = directory / "kdc.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True)
        self._kdc_conf.write_text(self._kdc_settings())
        self.krb5_conf.write_text(self._client_settings())
        self._run("kdb5_util", "create", "-r", self.realm, "-s", "-P", "master key of a test")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Also again, after `stop`, on the same port and database."""
        clock = [_path_of("faketime"), "-f", self._clock] if self._clock else []
        command = [*clock, _path_of("krb5kdc"), "-n", "-r", self.realm, "-P", str(self.directory / "kdc.pid")]
        with (self.directory / "kdc.out").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # faketime starts the KDC as a child: both are ended
            )
        self._wait_until_up()

    def stop(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    @contextmanager
    def hung(self) -> Iterator[None]:
        """It takes requests and answers none."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def add(self, *principals: str) -> None:
        """With random keys. Clients must prove that they have theirs before they get a ticket, as in most realms."""
        for principal in principals:
            self._administer("addprinc", "-randkey", "+requires_preauth", principal)

    def delete(self, principal: str) -> None:
        self._administer("delprinc", "-force", principal)

    def disable(self, principal: str) -> None:
        self._administer("modprinc", "-allow_tix", principal)

    def rotate(self, principal: str) -> None:
        """Gives it another key; keytabs that were written before hold the old one."""
        self._administer("cpw", "-randkey", principal)

    def write_keytab(self, name: str, *principals: str) -> Path:
        """A new keytab with the keys that these principals have now."""
        path = self.directory / name
        unfinished = path.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        for principal in principals:
            self._administer("ktadd", "-norandkey", "-k", str(unfinished), principal)
        unfinished.replace(path)
        return path

    def write_ticket_cache(self, name: str, keytab: Path, principal: str) -> Path:
        """A cache as `kinit` leaves it for others."""
        path = self.directory / name
        self._run("kinit", "-k", "-t", str(keytab), "-c", f"FILE:{path}", f"{principal}@{self.realm}")
        return path

    def logins_of(self, principal: str) -> int:
        """How often the KDC has given it a ticket for a key."""
        lines = self._log.read_text().splitlines()
        return sum("AS_REQ" in each and "ISSUE" in each and f" {principal}@" in each for each in lines)

    def _administer(self, *command: str) -> None:
        self._run("kadmin.local", "-r", self.realm, *command)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [_path_of(program), *arguments],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        # kadmin.local ends with 0 also when it could not do what it was asked.
        failed = done.returncode or f"{program}: " in done.stdout or "while " in done.stdout
        assert not failed, f"{program} {' '.join(arguments)}: {done.stdout}"

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": _PATH,
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(self._kdc_conf),
        }

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while not self._accepts():
            said = (self.directory / "kdc.out").read_text()
            assert self._process is not None
            assert self._process.poll() is None, f"krb5kdc ended: {said}"
            assert time.monotonic() < deadline, f"krb5kdc does not answer: {said}"
            time.sleep(POLL_S)

    def _accepts(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, self._port), timeout=1.0):
                return True
        except OSError:
            return False

    def _kdc_settings(self) -> str:
        return f"""\
[kdcdefaults]
 kdc_listen = {self.address}
 kdc_tcp_listen = {self.address}
[realms]
 {self.realm} = {{
  database_name = {self.directory}/principal
  key_stash_file = {self.directory}/stash
  acl_file = {self.directory}/acl
  max_life = {self._ticket_life_s}s
  max_renewable_life = 0s
  supported_enctypes = aes256-cts-hmac-sha1-96:normal
 }}
[logging]
 kdc = FILE:{self._log}
"""

    def _client_settings(self) -> str:
        """For this realm's clients and servers, Java's too. Several such files can be given at once (KRB5_CONFIG)."""
        mapped = f" .{self._domain} = {self.realm}\n" if self._domain else ""
        return f"""\
[libdefaults]
 default_realm = {self.realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {self.realm} = {{
  kdc = {self.address}
 }}
[domain_realm]
{mapped}"""


def _program(name: str) -> str | None:
    return shutil.which(name, path=_PATH)


def _path_of(name: str) -> str:
    found = _program(name)
    assert found is not None, PACKAGES
    return found
