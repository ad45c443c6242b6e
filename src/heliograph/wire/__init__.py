"""Kafka's bytes, no I/O.

Bytes in, values out, and the other way round. Nothing here opens a socket, reads a clock or logs; it imports the
standard library, crc32c, cramjam, numba and `heliograph.model` only. What a peer sent and Kafka's protocol does not
allow is a `ProtocolError`, whatever the bytes are. The one thing that is kept in files is compiled kernels.

    frame.py        size prefix, request and response headers
    reader.py       bounds-checked reading of Kafka's primitive types; writer.py: the way back
    fetch.py        Fetch 4..12          produce.py      Produce 3..9 and 13
    batch.py        the record batch's header: split, verify, rewrite in place; batch_layout.py: where its fields are
    runs.py         a fetch answer's batches, small ones together
    merge.py        a run made one batch; merge_plain.py, merge_compressed.py
    dense.py        records and fillers (filler.py) made one batch without holes; compare_dense.py: against the source
    compare.py      whether two ranges of records are equal
    decode.py       a batch's records as columns
    recode.py       a batch made into others: from an offset on, without its holes, smaller, with other times
    old_messages.py the message formats before Kafka 0.11 as batches
    kernels/        what these six do for each record and small batch, compiled; plain.py: batches as kernels read them
    codecs.py       gzip, snappy (xerial.py), lz4 (lz4_frames.py), zstd (zstd_frames.py), up to a limit
    api_keys.py     error_codes.py       numbers with names
"""
