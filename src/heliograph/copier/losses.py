"""Offsets that retention took before they were copied, where somebody has accepted that: what is told of them, and
whether they are still to be filled. Sans I/O.

    position ── gone from the source ── lost_to, where its log starts ──▶ copied on
                 markers take these offsets, as those of any gap (copier/fill.py)

Every offset that is filled so is told before, once by each copy that meets it. What was handed over may still be lost
with the lane: that the driver has it is known when it grants an attempt afterwards, which every loss waits for, also
one that is filled by empty transactions. Whether a loss is accepted is decided in model/admission.py.
"""

from __future__ import annotations

from heliograph.copier.spec import CopySpec
from heliograph.model.events import Event, Trouble
from heliograph.model.policy import OnLoss


class Losses:
    """Of one partition. `untold`: what was found last waits to be handed over to the driver."""

    def __init__(self, spec: CopySpec) -> None:
        self.untold = False
        self._why = (
            "on_loss: continue"
            if spec.policy.on_loss is OnLoss.CONTINUE
            else "an operator has accepted the loss"
        )
        self._told = range(0)
        self._next_offset: int | None = None  # where the loss ends that is under way

    def under_way(self, position: int) -> bool:
        """Whether what comes next there is lost."""
        return self._next_offset is not None and position < self._next_offset

    def found(self, position: int, lost_to: int | None) -> Trouble | None:
        """A resynchronisation has found the copy there, and all up to `lost_to` gone; None: nothing is. What is to be
        told of it that was not told before."""
        self._next_offset = lost_to
        if lost_to is None:
            return None
        lost, told = range(position, lost_to), self._told
        if told.start <= lost.start <= told.stop:  # it goes on, and the source may start later by now
            lost, self._told = range(told.stop, lost_to), range(told.start, max(told.stop, lost_to))
        else:  # also where the target was truncated: what it had is gone, too
            self._told = lost
        if not lost:
            return None
        self.untold = True
        return Trouble(
            Event.LOSS_ACCEPTED,
            f"source offsets [{lost.start}, {lost.stop}) are gone: retention overtook the mirror ({self._why});"
            " markers take their place on the target",
            lost.start,
            lost.stop,
        )
