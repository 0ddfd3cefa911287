"""What is expected of a lever's setting: a normal on the log scale of candidate over baseline. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from agent.surrogate.kernel_parts import PartEffect

LEAST_SD_LOG = 0.01
"""No expectation is trusted more closely than this."""

UNKNOWN_SD_LOG = 0.2
"""Standard deviation for a lever that this page does not know."""


@dataclass(frozen=True)
class Expectation:
    """Log of the objective with a lever's setting over the baseline's: a normal.

    `joint` are standard deviations, by name, of what is open beside `sd_log` and shared with other settings:
    what has one name is one unknown, and the sign says which way it moves this one. `parts` says by kind of
    part what the lever does there, where that is known; it then stands for the rest.
    """

    mean_log: float
    sd_log: float
    joint: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, PartEffect] = field(default_factory=dict)

    @cached_property
    def size_log(self) -> float:
        """How large the effect is expected to be, either way: its root mean square."""
        return math.hypot(self.mean_log, self.sd_log, *self.joint.values())
