"""Loops over records and small batches as machine code, by numba. Bytes in, numbers out: no I/O, and nothing of the
copier.

    loading.py        loads all of them in a thread; until then batches go as they are; proof.py: whether they work
    machine_code.py   where compiled kernels are kept            __main__.py: fills that place
    scanning.py       a fetch answer's batches, checksums verified; rows.py: as which columns
    joining.py        many batches' records as one batch's; progress.py: how far
    matching.py       whether two ranges of records are equal; verdicts.py
    splitting.py      a batch's records as columns
    carving.py        a dense stretch of a batch's records as a batch's; pieces.py: how far
    converting.py     messages of the formats before Kafka 0.11 as records; survey.py: of which
    densifying.py     a batch without holes, of records and fillers; density.py: what they are, and how far it got
    fillers.py        which records are fillers; dense_matching.py: whether such a batch holds the source's records
    records.py, cursor.py, varints.py, checksum.py, memory.py, compiler.py  what they are made of

Importing this package does not import numba. Python's side of each: wire/runs.py, merge.py, compare.py, decode.py,
recode.py, old_messages.py, dense.py, filler.py, compare_dense.py.
"""
