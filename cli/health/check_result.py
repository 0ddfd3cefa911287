"""What a check of `autoinfer doctor` gives."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How bad what a check found is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Check:
    """One line of the doctor: `advice` says what to do, and is empty where all is well."""

    name: str
    verdict: Verdict
    found: str
    advice: str = ""
    stops_runs: bool = False
    """Whether no campaign can run here before it is mended, bad or not in itself."""

    def as_json(self) -> dict[str, str | bool]:
        """Return the check as JSON data."""
        return {**asdict(self), "verdict": self.verdict.value}
