"""Whose failure it is that a launch of a test did not run: the candidate's, the control's or the device's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from experiments.engines.port import DEVICE_FAULTS, Infeasible
from experiments.job.open_launch import ArmInfeasible
from experiments.measurement.evidence import Arm

CONTROL_FAILED = "control"
"""Failure kind of a job whose control (or reference) did not run: it says nothing about the candidate."""


@contextmanager
def blamed_on(arm: Arm) -> Iterator[None]:
    """Report an `Infeasible` of the block as that of `arm`."""
    try:
        yield
    except ArmInfeasible as failed:
        raise blamed(ArmInfeasible(arm, failed.place, failed.reason)) from failed
    except Infeasible as reason:
        raise blamed(ArmInfeasible(arm, 0, reason)) from reason


@contextmanager
def blamed_by_arm() -> Iterator[None]:
    """Report an `ArmInfeasible` of the block as that of its arm."""
    try:
        yield
    except ArmInfeasible as failed:
        raise blamed(failed) from failed


def blamed(failed: ArmInfeasible) -> Infeasible:
    """What the test ends with: a control that did not run says nothing about the candidate."""
    if failed.arm is Arm.CANDIDATE or failed.reason.kind in (CONTROL_FAILED, *DEVICE_FAULTS):
        return failed.reason
    return Infeasible(CONTROL_FAILED, f"The control did not run: {failed.reason.cause}")
