"""Which directives can't hold together, and what to do about it.

A ban contradicts whatever else is said of its lever, a question of the night that changes it, and a pin or a
move of what does; a cap of a
share contradicts a larger minimum share of the same lever; minimum shares contradict each other where they
add up to more than all tests. A cap in tests or in time and a minimum share hold together: the cap holds
over it, and says so where it does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from configs.errors import UsageError
from db.labels import Noun, format_label
from db.models import Directive
from db.states import DirectiveKind
from knowledge.acts.allowances import Allowance
from knowledge.acts.directives import stored_allowance

TINY = 1e-9
"""Shares that add up to no more than this above 1 are all of it."""


def check_against(
    kind: DirectiveKind, lever: str, allowance: Allowance | None, held: Sequence[Directive]
) -> None:
    """Raise `UsageError` where a directive about a lever contradicts one about a lever that holds."""
    for other in held:
        if other.lever == lever and other.kind is not kind:
            _check_pair(kind, lever, allowance, other)
    if kind is DirectiveKind.RESERVE and allowance is not None:
        _check_sum(lever, allowance, held)


def check_question(question: tuple[str, tuple[str, ...]] | None, banned: str) -> None:
    """Raise `UsageError` where the question of the night, given as its label and its levers, changes what is
    to be banned."""
    if question is not None and banned in question[1]:
        raise UsageError(
            f"{question[0]} is the question of the night and changes {banned}, so a ban contradicts it.",
            "Take the question back first: autoinfer question --clear",
        )


def check_banned(label: str, levers: Collection[str], bans: Sequence[Directive], done: str) -> None:
    """Raise `UsageError` where what is to be `done` with a hypothesis (pinned, moved) says that it is tested,
    and a ban that holds says that it is not."""
    for ban in bans:
        if ban.lever in levers:
            raise UsageError(
                f"{label} changes {ban.lever}, which is banned ({format_label(Noun.DIRECTIVE, ban.id)}), "
                f"so it can't be {done}: it is not tested.",
                f"Lift the ban first: autoinfer ban {ban.lever} --clear",
            )


def _check_pair(kind: DirectiveKind, lever: str, allowance: Allowance | None, other: Directive) -> None:
    label = format_label(Noun.DIRECTIVE, other.id)
    if DirectiveKind.BAN in (kind, other.kind):
        raise UsageError(
            f"{lever} has a {other.kind.value} ({label}), which a {kind.value} contradicts.",
            f"Lift it first: autoinfer {other.kind.value} {lever} --clear",
        )
    if {kind, other.kind} != {DirectiveKind.CAP, DirectiveKind.RESERVE} or allowance is None:
        return
    theirs = stored_allowance(other)
    most, least = (allowance, theirs) if kind is DirectiveKind.CAP else (theirs, allowance)
    if most.share is not None and least.share is not None and most.share < least.share:
        raise UsageError(
            f"{lever} can't have at most {most.words} and at least {least.words}: "
            f"it has a {other.kind.value} ({label}).",
            f"Give another figure, or lift that first: autoinfer {other.kind.value} {lever} --clear",
        )


def _check_sum(lever: str, allowance: Allowance, held: Sequence[Directive]) -> None:
    others = [
        (str(each.lever), stored_allowance(each).share or 0.0)
        for each in held
        if each.kind is DirectiveKind.RESERVE and each.lever != lever
    ]
    shares = [*others, (lever, allowance.share or 0.0)]
    total = sum(share for _, share in shares)
    if total > 1 + TINY:
        told = " + ".join(f"{100 * share:g} % for {name}" for name, share in shares)
        left = 1 - sum(share for _, share in others)
        hint = f"At most {100 * left:g} % is left for {lever}" if left > TINY else "Nothing is left"
        raise UsageError(
            f"The minimum shares would be more than all tests: {told} = {100 * total:g} %.",
            f"{hint}; lift another with: autoinfer reserve {others[0][0]} --clear",
        )
