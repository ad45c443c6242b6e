"""CPU time and memory of a contender's whole process tree, by psutil.

Owns the book of processes that belonged to the tree, the ended ones included: they keep their last values. Must not
know what runs in them, but for the mark by which a lane's processes are recognised.

Memory is PSS: pages that forked workers share are counted once. Reading it walks a process's page tables, so
`weigh` is called less often than `look`.
"""

from __future__ import annotations

from dataclasses import dataclass

import psutil


@dataclass(slots=True)
class _Member:
    cpu_s: float = 0.0
    is_lane: bool = False
    peak_bytes: int = 0


class ProcessTree:
    def __init__(self, root_pid: int, lane_mark: str | None) -> None:
        self._root = psutil.Process(root_pid)
        self._lane_mark = lane_mark
        self._members: dict[psutil.Process, _Member] = {self._root: _Member()}
        self.peak_bytes = 0

    @property
    def cpu_s(self) -> float:
        return sum(member.cpu_s for member in self._members.values())

    @property
    def lanes_cpu_s(self) -> float:
        return sum(member.cpu_s for member in self._members.values() if member.is_lane)

    @property
    def lane_peaks_bytes(self) -> list[int]:
        """Each lane process's own peak, the largest first."""
        peaks = [member.peak_bytes for member in self._members.values() if member.is_lane]
        return sorted(peaks, reverse=True)

    def look(self) -> None:
        """Finds new members and reads everybody's CPU time."""
        for process in list(self._members):
            self._welcome(process)
        for process, member in self._members.items():
            self._read(process, member)

    def weigh(self) -> None:
        """Reads everybody's memory and keeps the peaks."""
        total_bytes = 0
        for process, member in self._members.items():
            size_bytes = _pss_bytes(process)
            member.peak_bytes = max(member.peak_bytes, size_bytes)
            total_bytes += size_bytes
        self.peak_bytes = max(self.peak_bytes, total_bytes)

    def survivors(self) -> list[psutil.Process]:
        """Members that still run, the root and zombies left out."""
        return [process for process in self._members if process != self._root and _runs(process)]

    def _welcome(self, process: psutil.Process) -> None:
        # Only the root is asked for the whole tree; members are asked too once their parent is gone.
        if process != self._root and _has_parent_in(process, self._members):
            return
        try:
            for child in process.children(recursive=True):
                self._members.setdefault(child, _Member())
        except psutil.Error:
            pass  # it has just ended: its children are asked themselves at the next look

    def _read(self, process: psutil.Process, member: _Member) -> None:
        try:
            times = process.cpu_times()
            # A process may have become another program since the last look: its line is read every time.
            if self._lane_mark is not None and not member.is_lane:
                member.is_lane = self._lane_mark in process.cmdline()
        except psutil.Error:
            return  # ended: its last values stay
        member.cpu_s = times.user + times.system


def _has_parent_in(process: psutil.Process, members: dict[psutil.Process, _Member]) -> bool:
    try:
        return process.parent() in members
    except psutil.Error:
        return True  # gone itself: there is nothing to ask


def _pss_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
