"""PEM text to its blocks, as Kafka's Java clients read it: line ends may be any white space, and between blocks is any
text. So a whole certificate may stand on one line of a properties file. Must not know what a block is for.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field

_BLOCK = re.compile(
    r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----(?P<body>[^-]*(?:-(?!----)[^-]*)*)-----END (?P=label)-----"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PemBlock:
    label: str
    body: str = field(repr=False)

    @property
    def is_certificate(self) -> bool:
        return self.label in ("CERTIFICATE", "X509 CERTIFICATE")

    @property
    def is_private_key(self) -> bool:
        return self.label.endswith("PRIVATE KEY")

    @property
    def is_encrypted(self) -> bool:
        """By PKCS8, or in OpenSSL's older way, which a header says."""
        return self.label.startswith("ENCRYPTED") or "ENCRYPTED" in self.body

    def der(self) -> bytes:
        """ValueError if it is damaged."""
        try:
            return base64.b64decode("".join(self.body.split()), validate=True)
        except ValueError:  # of a character that is none of base64, or of wrong padding
            raise ValueError("its base64 is damaged") from None

    def text(self) -> str:
        """With the line ends that strict readers demand. A block with headers has them already."""
        body = self.body.strip("\r\n") if ":" in self.body else "\n".join(self.body.split())
        return f"-----BEGIN {self.label}-----\n{body}\n-----END {self.label}-----\n"


def pem_blocks(text: str) -> list[PemBlock]:
    return [PemBlock(label=found["label"], body=found["body"]) for found in _BLOCK.finditer(text)]
