"""Values of records: JSON that compresses like real records, and random text and bytes that do not compress.

Owns the records' shape. Text is cut from one pool of random letters: lz4 finds nothing in it, so the share of random
text in a record sets how well it compresses.
"""

from __future__ import annotations

import os
import random
import string

from bench.workload import Value

POOL_CHARACTERS = 16_000_000
RANDOM_CHARACTERS = 390
SHAPE = (
    b'{"id":"%010d","type":"order.placed","schema":"com.example.orders.v3","region":"eu-central-1","currency":"EUR",'
    b'"customer":{"id":"%s","segment":"returning","newsletter":false},"status":"confirmed","channel":"web-shop",'
    b'"items":[{"sku":"%s","quantity":1,"unit":"piece"}],"address":"%s","payment":{"method":"card","captured":true},'
    b'"trace":"%s"}'
)
CUTS = (0, 40, 100, 220, RANDOM_CHARACTERS)
SEED = 1


def orders() -> Value:
    """About 725 bytes of JSON each."""
    text = random_text(RANDOM_CHARACTERS)
    a, b, c, d, e = CUTS

    def value(number: int) -> bytes:
        cut = text(number)
        return SHAPE % (number, cut[a:b], cut[b:c], cut[c:d], cut[d:e])

    return value


def random_text(size_bytes: int) -> Value:
    chance = random.Random(SEED)
    letters = (string.ascii_letters + string.digits + "+/").encode()
    table = bytes(letters[byte % len(letters)] for byte in range(256))
    pool = chance.randbytes(POOL_CHARACTERS).translate(table)
    last_start = POOL_CHARACTERS - size_bytes

    def value(number: int) -> bytes:
        del number
        start = int(chance.random() * last_start)
        return pool[start : start + size_bytes]

    return value


def random_bytes(size_bytes: int) -> Value:
    return lambda _: os.urandom(size_bytes)
