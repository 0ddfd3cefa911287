"""Queues and directives as hypothesis generates them; few levers and round numbers, so that ties happen."""

from __future__ import annotations

from hypothesis import strategies as st

from agent.ranking.values import Candidate, Directive
from db.states import DirectiveKind

LEVERS = ("compile", "dtype", "pruning", "threads")
MOST_HYPOTHESES = 12


@st.composite
def queues(draw: st.DrawFn) -> list[Candidate]:
    """A queue of distinct hypotheses, in any order."""
    ids = draw(st.lists(st.integers(1, 30), unique=True, max_size=MOST_HYPOTHESES))
    return [
        Candidate(
            hypothesis_id=hypothesis_id,
            levers=tuple(sorted(draw(st.sets(st.sampled_from(LEVERS), min_size=1, max_size=2)))),
            log_ratio_mean=draw(st.sampled_from([-0.5, -0.1, -0.03, 0.0, 0.1])),
            log_ratio_sd=draw(st.sampled_from([0.01, 0.05, 0.2])),
            p_quality=draw(st.sampled_from([0.0, 0.3, 0.6, 1.0])),
            p_feasible=draw(st.sampled_from([0.05, 0.5, 1.0])),
            cost_s=draw(st.sampled_from([1.0, 30.0, 60.0])),
            pinned=draw(st.integers(0, 9)) == 0,
        )
        for hypothesis_id in ids
    ]


@st.composite
def directives(draw: st.DrawFn) -> list[Directive]:
    """Directives with distinct events, about levers and hypotheses that may or may not be in the queue."""
    events = draw(st.lists(st.integers(1, 99), unique=True, max_size=4))
    found = []
    for event_id in events:
        kind = draw(
            st.sampled_from(
                [
                    DirectiveKind.FOCUS,
                    DirectiveKind.BOOST,
                    DirectiveKind.BAN,
                    DirectiveKind.PIN,
                    DirectiveKind.PRIORITY,
                ]
            )
        )
        of_one = kind in (DirectiveKind.PIN, DirectiveKind.PRIORITY)
        lever = None if of_one else draw(st.sampled_from(LEVERS))
        one = draw(st.integers(1, 30)) if of_one else None
        ahead = draw(st.frozensets(st.integers(1, 30))) if kind == DirectiveKind.PRIORITY else frozenset()
        found.append(Directive(kind, event_id, "sam", "12:03", lever, one, ahead=ahead))
    return found
