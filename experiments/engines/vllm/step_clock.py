"""Times the parts of an engine's steps by wrapping methods of vLLM's model runner. Runs in vLLM's worker.

Before and after each part the device is waited for, so parts do not overlap and a step takes longer than
it does untimed: times tell shares. A step's forward is one part, for within a graph there are no modules to
look at.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import torch


class StepClock:
    """Stands in for `execute_model`, `sample_tokens`, `compute_logits` and what drafts while installed."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        self._saved: list[tuple[Any, str]] = []
        self.steps: list[dict[str, float]] = []
        """Seconds by part of each step: `step`, `sample`, `head`, `draft`; inner ones count in outer ones."""

    def install(self) -> None:
        """Begin to time."""
        self._wrap(self._runner, "execute_model", "step", begins=True)
        self._wrap(self._runner, "sample_tokens", "sample")
        self._wrap(self._runner.get_model(), "compute_logits", "head")
        self._wrap(self._runner, "propose_draft_token_ids", "draft")
        self._wrap(getattr(self._runner, "speculator", None), "propose", "draft")

    def remove(self) -> None:
        """Leave everything as it was."""
        for owner, name in self._saved:
            delattr(owner, name)
        self._saved.clear()

    def _wrap(self, owner: Any, name: str, part: str, *, begins: bool = False) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return

        def timed(*arguments: Any, **named: Any) -> Any:
            if begins:
                self.steps.append(defaultdict(float))
            _wait()
            start_s = time.perf_counter()
            given = original(*arguments, **named)
            _wait()
            if self.steps:
                self.steps[-1][part] += time.perf_counter() - start_s
            return given

        setattr(owner, name, timed)
        self._saved.append((owner, name))


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
