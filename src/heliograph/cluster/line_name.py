"""The lines on which appends go to one broker: several, because a broker handles one append of a line at a time."""

from __future__ import annotations

from typing import NamedTuple


class LineName(NamedTuple):
    """`careful`: for perishable batches, under the exclusive lease. `patient`: followers may take their time."""

    number: int
    careful: bool = False
    patient: bool = False
