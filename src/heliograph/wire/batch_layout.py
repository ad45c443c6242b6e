"""Where the fields of a record batch's header are (magic 2), for Python and for kernels.

     0 base offset      8 batch length   12 leader epoch   16 magic   17 crc
    21 attributes      23 last offset delta                27 base timestamp   35 max timestamp
    43 producer id     51 producer epoch 53 base sequence  57 records count    61 records

The CRC32C covers everything from byte 21 on; the batch length counts from byte 12 on.
"""

from __future__ import annotations

MAGIC = 2

LENGTH_AT = 8
LEADER_EPOCH_AT = LENGTH_COUNTS_FROM = 12
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = CRC_FROM = 21
LAST_OFFSET_DELTA_AT = 23
BASE_TIMESTAMP_AT = 27
MAX_TIMESTAMP_AT = 35
PRODUCER_AT = 43
PRODUCER_EPOCH_AT = 51
BASE_SEQUENCE_AT = 53
COUNT_AT = 57
HEADER_BYTES = 61

MIN_LENGTH = HEADER_BYTES - LENGTH_COUNTS_FROM
# Leaves room for any last offset delta, so that the next offset always fits the protocol's int64.
BASE_OFFSET_LIMIT = 2**63 - 2**31

CODEC_BITS = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
# The cleaner sets it: the base timestamp is when tombstones may go. Records count from it as from any other.
DELETE_HORIZON = 0x40
