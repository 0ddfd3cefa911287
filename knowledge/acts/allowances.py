"""How much of a campaign a lever may have: a number of tests, a time, or a share of all tests. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from configs.errors import UsageError
from configs.quantities import format_duration, parse_duration_s, parse_percent
from db.states import DirectiveKind

TESTS, TIME_S, SHARE = "tests", "time_s", "share"
"""Where the `value` of a directive keeps what it allows."""

ALLOTTING = (DirectiveKind.CAP, DirectiveKind.RESERVE)
"""The directives that say how much a lever may, or must, have."""

MOST_TESTS = 100_000
"""More tests than any campaign has."""


@dataclass(frozen=True)
class Allowance:
    """One of: `tests`, `time_s` in seconds, `share` of all tests, from 0 to 1."""

    tests: int | None = None
    time_s: float | None = None
    share: float | None = None

    @property
    def words(self) -> str:
        """Such as `3 tests`, `20m`, `30 % of all tests`."""
        if self.tests is not None:
            return f"{self.tests} test{'' if self.tests == 1 else 's'}"
        if self.time_s is not None:
            return format_duration(self.time_s)
        return f"{100 * (self.share or 0.0):g} % of all tests"

    @property
    def stored(self) -> dict[str, object]:
        """As the `value` of a directive."""
        given = {TESTS: self.tests, TIME_S: self.time_s, SHARE: self.share}
        return {name: value for name, value in given.items() if value is not None}


def parse_most(text: str) -> Allowance:
    """What a cap allows: `3` tests, `20m`, or `30%` of all tests.

    Raises `UsageError` for anything else, for nothing at all (that is a ban) and for 100 % or more.
    """
    plain = text.strip()
    if plain.endswith("%"):
        share = parse_percent(plain)
        if not 0 < share < 1:
            raise UsageError(
                f"A cap of {text.strip()} of all tests {_is_no_cap(share)}.",
                "Write a share above 0% and below 100%, such as 30%; to test nothing of it: autoinfer ban",
            )
        return Allowance(share=share)
    if plain.isascii() and plain.isdecimal():
        tests = int(plain)
        if not 1 <= tests <= MOST_TESTS:
            what = "no test at all is a ban" if tests == 0 else f"{plain[:12]} tests are more than any cap"
            raise UsageError(
                f"A cap takes 1 to {MOST_TESTS:,} tests: {what}.", "To test nothing of it: autoinfer ban"
            )
        return Allowance(tests=tests)
    try:
        return Allowance(time_s=parse_duration_s(plain))
    except UsageError:
        raise UsageError(
            f"{text[:40]!r} is neither a number of tests, nor a time, nor a share.",
            "Write such as 3, 20m or 30%.",
        ) from None


def parse_least(text: str) -> Allowance:
    """What a reserve keeps for a lever: `30%` of all tests; raises `UsageError` for anything else."""
    share = parse_percent(text)
    if not 0 < share <= 1:
        raise UsageError(
            f"A minimum share of {text.strip()} is impossible: it is of all tests.",
            "Write a share above 0% and up to 100%, such as 30%.",
        )
    return Allowance(share=share)


def _is_no_cap(share: float) -> str:
    return "is none" if share >= 1 else "lets nothing run"
