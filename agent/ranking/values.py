"""The values of the ranking: what goes in and what comes out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from db.states import DirectiveKind
from experiments.measurement.evidence import Metric

DISPUTE_EVERY = 10
"""Of so many tests one may be of what takes a dispute between findings apart; judgement: it teaches where a
finding holds, and makes no token faster."""


@dataclass(frozen=True)
class There:
    """What a test on another target than the campaign's own takes beside seconds there.

    `wait_s` is expected to pass before anything runs there: a start, the provider's queue, an image; it holds
    up no other device, and is a guess unless `is_wait_known`. `build_s` of the expected seconds build what is
    not there yet. `speed` is how many times as fast as here a test is expected to run, `basis` what that
    rests on. `held` says in a sentence why it is not sent there now.
    """

    target: str
    wait_s: float = 0.0
    build_s: float = 0.0
    speed: float = 1.0
    basis: str = ""
    held: str | None = None
    is_wait_known: bool = True


@dataclass(frozen=True)
class Beside:
    """A test under way on another device (its label) and the log ratio that it is expected to lead to."""

    hypothesis: str
    expected_log: float


@dataclass(frozen=True)
class Candidate:
    """A queued hypothesis as the ranking sees it.

    `log_ratio_mean` and `log_ratio_sd` are the belief of log(its candidate's TPOT / the *incumbent's*),
    whatever its own control is; `levers` all levers that it changes; `cost_s` the expected seconds of its
    experiment where it runs, `most_s` those that it takes if all of its plan is measured, None where nobody
    can tell;
    `judges_quality`: it measures quality too. `asked`: the campaign's file asks it. `separates`: the label
    of the confounded experiment whose causes it takes apart; `stands_for`: the hypothesis whose claim it
    makes anew for that, and whose turn it has. Where `metric` is another one than the campaign's objective
    (None), the belief is of that metric, candidate over its own control.
    `takes_apart`: the findings whose dispute it takes apart, where it is such a test's turn.
    """

    hypothesis_id: int
    levers: tuple[str, ...]
    log_ratio_mean: float
    log_ratio_sd: float
    p_quality: float
    p_feasible: float
    cost_s: float
    pinned: bool = False
    asked: bool = False
    metric: Metric | None = None
    separates: str | None = None
    stands_for: int | None = None
    untested: int | None = None
    """The same hypothesis, where that was not tested for what would have confounded it: what the user
    approved of it is approved of this one."""
    takes_apart: tuple[str, ...] = ()
    most_s: float | None = None
    judges_quality: bool = True
    usd: float | None = None
    """What it is expected to cost in dollars; None on a target that costs none."""
    settles: str | None = None
    """The label of the question of the night, where it is that one or separates its causes."""
    confirms: bool = False
    """Whether it is the last test, of the best against the baseline, which no cap holds back."""
    builds_s: Mapping[str, float] = field(default_factory=dict)
    """Which of its expected seconds build an artifact that is not there, by the artifact's key."""
    beside: Beside | None = None
    """What is under test on the same lever, on top of which its gain is counted: the belief has that taken
    off already."""
    there: There | None = None
    """Where it confirms what was found, and what that takes; None of a test on the campaign's own target. The
    belief is then over the incumbent of *that* target."""

    launches_sd_log: float = 0.0
    """What of the belief's standard deviation is between launches of one configuration: a test may show it,
    and nothing is won by it."""

    part_of: tuple[int, ...] = ()
    """The hypotheses that are another campaign's best and hold all that this one changes, and more."""

    @property
    def is_due(self) -> bool:
        """Whether it goes before what the agent would try next, whatever it may pay."""
        return self.asked or self.separates is not None or bool(self.takes_apart)


@dataclass(frozen=True)
class Directive:
    """One steering that holds: of a lever (focus, boost, ban, cap, reserve) or a hypothesis (pin, priority,
    question, approval).

    `who` gave it and `when` (as people read it), by the event `event_id`. `factor` replaces the default of a
    focus or boost. `ahead` are the hypotheses that a priority, a move by hand, leaves ahead of its own.
    `up_to_s` is the expected cost up to which an approval holds. A cap has one of `tests`, `time_s` (seconds)
    and `share` (of all tests), a reserve has `share`.
    """

    kind: DirectiveKind
    event_id: int
    who: str
    when: str
    lever: str | None = None
    hypothesis_id: int | None = None
    factor: float | None = None
    ahead: frozenset[int] = frozenset()
    up_to_s: float = math.inf
    tests: int | None = None
    time_s: float | None = None
    share: float | None = None

    def cited(self) -> str:
        """Who gave it and when, as every sentence cites it."""
        return f"by {self.who} at {self.when} (event {self.event_id})"


@dataclass(frozen=True)
class Used:
    """What a campaign's tests, done and under way, have used: how many, and by lever how many and seconds.

    A test of several levers counts for each of them.
    """

    tests: int = 0
    of_lever: Mapping[str, int] = field(default_factory=dict)
    seconds_of: Mapping[str, float] = field(default_factory=dict)


class Place(NamedTuple):
    """One place of the queue, with everything it comes from. A tuple, since a queue of thousands is made anew
    after every verdict, and a frozen dataclass of as many fields takes several times as long to make.

    `score` = `gain` × `p_quality` × `p_feasible` / `weighed_s` × `directive_factor`: the expected share of
    TPOT saved per second. `weighed_s` is `cost_s` where all of the queue is for one target, else with dollars
    (`usd`) and waiting (`wait_s`) in the same currency. `target` is where it confirms what was found, empty
    for the campaign's own. `came_from` is its place in the previous order. `paused` places are not run.
    `asked` is what goes first whatever it may pay: a question, or what separates the causes of a confounded
    test. `moved_by` is the event of the move by hand that holds it there. `most_s` is what its experiment
    takes if all of its plan is measured. `awaits_approval`: it keeps its place and is not run before the user
    said so; `approved_by` is the event by which it may. Events too are `capped_by`, the cap that pauses it,
    `reserved_by`, the reserve that it stands here for, and `question_of`, the question of the night that it
    settles. `early`: a cap of a share lets it run only after others. `spared_s`: what of its cost
    builds what others use too, and counts with them. `owed`: what was tested so far is less
    than its reserve. `log_ratio_mean` and `log_ratio_sd` are the candidate's, the belief that it was ranked
    by; None in what an older version stored.
    """

    hypothesis_id: int
    place: int
    score: float
    gain: float
    p_quality: float
    p_feasible: float
    cost_s: float
    directive_factor: float
    pinned: bool
    paused: bool
    came_from: int | None
    reason: str
    asked: bool = False
    moved_by: int | None = None
    most_s: float | None = None
    awaits_approval: bool = False
    approved_by: int | None = None
    capped_by: int | None = None
    reserved_by: int | None = None
    question_of: int | None = None
    early: bool = False
    owed: bool = False
    weighed_s: float = 0.0
    usd: float | None = None
    wait_s: float = 0.0
    build_s: float = 0.0
    target: str = ""
    spared_s: float = 0.0
    log_ratio_mean: float | None = None
    log_ratio_sd: float | None = None

    @property
    def may_run(self) -> bool:
        """Whether nothing that the user said, or did not say yet, keeps it from being run."""
        return not self.paused and not self.awaits_approval and not self.early

    @property
    def is_wanted(self) -> bool:
        """Whether the user or the campaign's file wants it tested whatever it may pay."""
        by_hand = self.pinned or self.moved_by is not None or self.question_of is not None
        return by_hand or self.asked or self.owed

    @property
    def worth(self) -> float:
        """Expected share of TPOT saved by testing it: gain × the probabilities that it comes to something."""
        return self.gain * self.p_quality * self.p_feasible


@dataclass(frozen=True)
class Ranking:
    """The queue in order, place 1 first; paused places are last."""

    places: tuple[Place, ...] = field(default=())

    @property
    def order(self) -> tuple[int, ...]:
        """The hypotheses in order."""
        return tuple(place.hypothesis_id for place in self.places)

    @property
    def next_up(self) -> Place | None:
        """What is to be tested next; None when nothing is left that may run."""
        return next((place for place in self.places if place.may_run), None)


@dataclass(frozen=True)
class Cause:
    """The event after which the queue was ranked again; `text` names it in a few words."""

    event_id: int
    text: str


@dataclass(frozen=True)
class Steering:
    """The directives given or lifted since the last ranking: the newest of each hypothesis, and of all, and
    the events of all."""

    of_hypothesis: Mapping[int, Cause] = field(default_factory=dict)
    newest: Cause | None = None
    given: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Shift:
    """What a hypothesis's place is in two orders, None where it is not in one, and why it differs; `steered`
    where a directive about it is why. `held_by` is the event of the cap or the minimum share that makes it:
    either may begin to bear when something was tested, long after it was given."""

    hypothesis_id: int
    from_place: int | None
    to_place: int | None
    why: str
    steered: bool = False
    held_by: int | None = None


@dataclass(frozen=True)
class Move:
    """A hypothesis that changed its place; None on the side where it was not in the queue."""

    hypothesis_id: int
    from_place: int | None
    to_place: int | None
    event_id: int
    reason: str


def factors(directives: Sequence[Directive], levers: tuple[str, ...]) -> list[Directive]:
    """The focus and boost directives that speak of one of these levers, by event."""
    kinds = (DirectiveKind.FOCUS, DirectiveKind.BOOST)
    found = [each for each in directives if each.kind in kinds and each.lever in levers]
    return sorted(found, key=lambda each: each.event_id)
