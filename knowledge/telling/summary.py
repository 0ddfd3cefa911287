"""A campaign in words: templates over facts, every number of which is in the database.

`summarize` is pure; `campaign_facts` gathers what it needs. What each part says:

- *validating*: the hypotheses under test, with the stage, and what comes next;
- *question*: the question of the night, whether it is settled and how, where one was asked;
- *at rest*: the devices that others use, so that the campaign gives them no test, where there are any; of
  one that is interrupted, those that rested then;
- *held down*: in how many timed blocks heat or the host held a GPU down, where it did, and what to do;
- *waiting*: how many hypotheses wait for the user's approval, where the campaign asks for any;
- *supported*: what was supported, the largest effect first, and what of it is in doubt now;
- *supported* also says how many of these are expected to be false at most
  (`knowledge.queries.claims.discovery`);
- *ruled out*: what was refuted or infeasible, and why; inconclusive ones are told apart, as open;
- *confounded*: tests that say nothing about their claim, what else differed, and what separates the causes;
- *surprised*: how often the prediction's 80 % interval held, and measured effects outside it, the furthest
  first; confounded ones are effects of more than what was predicted, and left out;
- *carried over*: what other campaigns found that it began with, and how far that is believed now;
- *proposers*: how often what each proposed was supported, with the exact 95 % interval;
- *spent*, *best*, with what the baseline takes in tests where that is another time, and *stopped*;
- *go on*: how, of one that ended before it judged anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from configs.authors import author_words
from configs.moments import format_utc
from configs.quantities import format_duration
from db.models.base import JsonObject
from db.states import CampaignState, HypothesisState, VerdictOutcome
from experiments.space.configuration import Configuration
from knowledge.figures import (
    DEFAULT_METRIC,
    against_control,
    clause,
    counted,
    listed,
    machine_changed,
    metric_told,
    signed,
    taken,
)
from knowledge.going_on import how_to_go_on
from knowledge.latency_only import FASTEST
from knowledge.machines import machine
from knowledge.queries.baseline_in_tests import BaselineInTestsView
from knowledge.queries.claims.model_answers import AskedView
from knowledge.queries.claims.proposers import ProposerView
from knowledge.queries.measured.gpu_throttling import GpuThrottlingView
from knowledge.queries.order.carried import CarriedView
from knowledge.queries.order.night import QuestionView
from knowledge.queries.spent.saved_time import SavedView, saved_sentence
from knowledge.queries.view import View
from knowledge.stored import number
from knowledge.telling import summary_verdicts as verdicts
from knowledge.telling.energy_words import energy_told
from knowledge.telling.facts import CampaignFacts, WaitingFact
from knowledge.telling.spent_words import experiments_told
from knowledge.telling.statements import first_statement
from knowledge.telling.summary_part import MOST_NAMED, PartView


class SummaryView(View):
    """A campaign in words, part by part, with the headline first; `interrupted`: by its state it should go
    on, and nothing drives it."""

    campaign: str
    state: CampaignState
    interrupted: bool
    headline: str
    question: PartView | None
    validating: PartView
    at_rest: PartView | None
    held_down: PartView | None
    waiting: PartView | None
    supported: PartView
    ruled_out: PartView
    inconclusive: PartView
    confounded: PartView
    surprised: PartView
    carried: PartView | None
    proposers: PartView
    spent: PartView
    best: PartView
    baseline_in_tests: BaselineInTestsView | None
    stopped_because: str | None
    go_on: str | None

    def parts(self) -> tuple[PartView, ...]:
        """Return the parts in the order of reading."""
        return (
            *(() if self.question is None else (self.question,)),
            self.best,
            *(() if self.held_down is None else (self.held_down,)),
            *(() if self.at_rest is None else (self.at_rest,)),
            self.validating,
            *(() if self.waiting is None else (self.waiting,)),
            self.supported,
            self.ruled_out,
            self.inconclusive,
            self.confounded,
            self.surprised,
            *(() if self.carried is None else (self.carried,)),
            self.proposers,
            self.spent,
        )


def summarize(facts: CampaignFacts, most: int = MOST_NAMED, *, short: bool = False) -> SummaryView:
    """Return the campaign in words, with at most `most` named in a part, and of a verdict's reason the first
    statement alone where it is to be `short`; equal facts give equal words."""
    judged = facts.judged
    if short:
        judged = tuple(replace(fact, reason=first_statement(fact.reason)) for fact in judged)
    by_outcome = {outcome: [fact for fact in judged if fact.outcome is outcome] for outcome in VerdictOutcome}
    return SummaryView(
        campaign=facts.campaign,
        state=facts.state,
        interrupted=facts.interrupted,
        headline=_headline(facts),
        question=_question(facts.question),
        validating=validating(facts.testing, facts.next, facts.hypotheses),
        at_rest=_at_rest(facts),
        held_down=_held_down(facts.throttling),
        waiting=_waiting(facts),
        supported=verdicts.supported(
            by_outcome[VerdictOutcome.SUPPORTED], facts.discovery, most, facts.differs, facts.in_doubt
        ),
        ruled_out=verdicts.ruled_out(by_outcome, most),
        inconclusive=verdicts.inconclusive(by_outcome[VerdictOutcome.INCONCLUSIVE], most),
        confounded=verdicts.confounded(by_outcome[VerdictOutcome.CONFOUNDED], most, facts.made_anew),
        surprised=verdicts.surprised(
            [fact for fact in facts.judged if fact.outcome is not VerdictOutcome.CONFOUNDED], most
        ),
        carried=_carried(facts.carried),
        proposers=_with_asked(_proposers(facts.proposers), facts.asked),
        spent=_spent(facts),
        best=_best(facts),
        baseline_in_tests=facts.baseline_in_tests,
        stopped_because=facts.stopped_because,
        go_on=how_to_go_on(
            facts.campaign,
            facts.state,
            facts.stopped_because,
            interrupted=facts.interrupted,
            judged=sum(fact.outcome is not VerdictOutcome.INFEASIBLE for fact in facts.judged),
            spent_s=facts.spent_s or 0.0,
            budget_s=facts.budget_s or 0.0,
        ),
    )


def _headline(facts: CampaignFacts) -> str:
    what = f"{facts.campaign} looks for what makes {facts.model} faster on {machine(facts.target)}"
    if facts.interrupted:
        return f"{what}: it was interrupted, and nothing drives it."
    match facts.state:
        case CampaignState.STOPPED:
            return f"{what}: it ended because {clause(facts.stopped_because or 'of an unknown reason')}."
        case CampaignState.PAUSED:
            return f"{what}: it is paused."
        case CampaignState.STOPPING:
            return f"{what}: it is about to stop."
    return f"{what}: it is running."


def _how_far(fact: WaitingFact) -> str | None:
    """How far the test of a hypothesis is, or how it ended; None where nothing has begun."""
    if fact.ended is not None:
        return fact.ended
    if not fact.stage:
        return None
    where = f"{fact.stage}" if fact.device is None else f"{fact.stage} on {fact.device}"
    return f"{where}, interrupted" if fact.interrupted else where


def validating(
    testing: Sequence[WaitingFact], following: Sequence[WaitingFact], hypotheses: Mapping[str, int]
) -> PartView:
    """Return what is under test and what comes next; `hypotheses` counts them by state."""
    title = "Being validated"
    lines = [
        f"{fact.id}  {clause(fact.claim)}" + (f" ({far})" if (far := _how_far(fact)) else "")
        for fact in testing
    ]
    waiting = hypotheses.get(HypothesisState.QUEUED.value, 0)
    queued = (
        f"{counted(waiting, 'hypothesis', 'hypotheses')} in the queue" if waiting else "the queue is empty"
    )
    lines += [
        f"then {fact.id}  {clause(fact.claim)}" + (f": {fact.reason}" if fact.reason else "")
        for fact in following
    ]
    stopped = sum(fact.interrupted for fact in testing)
    ended = sum(fact.ended is not None for fact in testing)
    told = []
    if (under := len(testing) - stopped - ended) > 0:
        told.append(f"{counted(under, 'hypothesis is', 'hypotheses are')} under test")
    if stopped:
        told.append(f"{counted(stopped, 'test was', 'tests were')} interrupted")
    if ended:
        waits = "has ended and waits" if ended == 1 else "have ended and wait"
        told.append(f"{counted(ended, 'test')} {waits} for the campaign to go on")
    sentence = f"{', '.join(told) or 'Nothing is under test'}; {queued}."
    return PartView(title=title, sentence=sentence, lines=tuple(lines))


def _question(question: QuestionView | None) -> PartView | None:
    """What became of the question of the night; None where nobody asked one."""
    if question is None:
        return None
    line = f"{question.hypothesis}  {clause(question.claim)}"
    return PartView(title="The question of the night", sentence=question.sentence, lines=(line,))


def _waiting(facts: CampaignFacts) -> PartView | None:
    """How many wait for the user; None where the campaign asks for nothing."""
    if facts.approve_above_s is None:
        return None
    title = "Waits for you"
    if not facts.awaiting:
        return PartView(title=title, sentence="Nothing waits for your approval.")
    waits = counted(facts.awaiting, "hypothesis waits", "hypotheses wait")
    above = format_duration(facts.approve_above_s)
    return PartView(
        title=title,
        sentence=f"{waits} for your approval, which is asked for above {above} of expected time.",
        lines=("See them with their quotes: autoinfer queue --awaiting",),
    )


def _at_rest(facts: CampaignFacts) -> PartView | None:
    """Which devices others use, and who; None where none rests."""
    if not facts.at_rest:
        return None
    devices, one = listed([each.device for each in facts.at_rest]), len(facts.at_rest) == 1
    if any(each.interrupted for each in facts.at_rest):
        return PartView(
            title="At rest",
            sentence=f"{devices} rested when the campaign was interrupted, because others used "
            f"{'it' if one else 'them'}.",
            lines=(f"looked at as soon as it goes on: autoinfer run --resume {facts.campaign}",),
        )
    return PartView(
        title="At rest",
        sentence=f"{devices} {'rests' if one else 'rest'}, because others use {'it' if one else 'them'}.",
        lines=tuple(f"since {format_utc(each.since)}; told then: {each.told}." for each in facts.at_rest),
    )


def _held_down(found: GpuThrottlingView | None) -> PartView | None:
    if found is None:
        return None
    apart = () if found.apart is None else (found.apart,)
    lines = (*apart, f"Launch by launch: autoinfer show {found.experiments[0]}")
    return PartView(title="A slowed GPU", sentence=found.sentence.replace("`", ""), lines=lines)


def _carried(found: CarriedView | None) -> PartView | None:
    if found is None:
        return None
    findings = f"They bear on {listed(list(found.findings[:MOST_NAMED]))}" if found.findings else ""
    more = len(found.findings) - MOST_NAMED
    line = f"{findings}{f' and {more} more' if more > 0 else ''}."
    return PartView(title="Carried over", sentence=found.sentence, lines=(line,) if findings else ())


def _proposers(found: Sequence[ProposerView]) -> PartView:
    title = "Proposers"
    judged = [each for each in found if each.judged]
    if not judged:
        return PartView(title=title, sentence="Nothing that anyone proposed is judged yet.")
    lines = [f"{_who(each.name)}  {each.words}{_shrunk(each)}{_came_out(each)}" for each in judged]
    silent = [_who(each.name) for each in found if not each.judged]
    waits = f"; nothing of {listed(silent)} is judged yet" if silent else ""
    sentence = f"{counted(len(judged), 'proposer has', 'proposers have')} verdicts{waits}."
    return PartView(title=title, sentence=sentence, lines=tuple(lines))


def _with_asked(part: PartView, asked: AskedView | None) -> PartView:
    """The same with what a language model was asked, and what that cost."""
    if asked is None:
        return part
    return part.model_copy(update={"lines": (*part.lines, f"The language model was put {asked.words}")})


def _who(proposer: str) -> str:
    return "you" if proposer == "user" else author_words(proposer)


def _shrunk(proposer: ProposerView) -> str:
    """What its share of the next proposals goes by (`knowledge.hit_rates`)."""
    return "" if proposer.chance is None else f", {100 * proposer.chance:.0f} % after shrinkage"


def _came_out(proposer: ProposerView) -> str:
    """What it was predicted to change on average, and what that came to; without a mean of effects in
    points."""
    if not proposer.measured:
        return ""
    predicted, measured = proposer.predicted_mean, proposer.measured_mean
    inside = f"{proposer.inside} of {proposer.measured} inside the 80 % prediction"
    if predicted is None or measured is None:
        return f"; {inside}"
    return (
        f"; predicted {signed(100 * predicted)} % on average, measured {signed(100 * measured)} % ({inside})"
    )


def _spent(facts: CampaignFacts) -> PartView:
    title = "Spent"
    experiments = experiments_told(facts)
    if facts.spent_s is None:
        return PartView(title=title, sentence=f"{experiments}; the campaign has not started.")
    budget = f" of its budget of {format_duration(facts.budget_s)}" if facts.budget_s is not None else ""
    sentence = f"{experiments}; the campaign itself ran for {format_duration(facts.spent_s)}{budget}."
    told = energy_told(facts.energy)
    lines = _saved(facts) if told is None else (*_saved(facts), f"{told}.")
    return PartView(title=title, sentence=sentence, lines=lines)


def _saved(facts: CampaignFacts) -> tuple[str, ...]:
    """What stopping early saved against the full plans, where it is known."""
    told = saved_sentence(SavedView.model_validate(_part(facts.outcome, "stopped_early")))
    return () if told is None else (told,)


def _best(facts: CampaignFacts) -> PartView:
    title = "Best so far"
    baseline, naive, best = (_part(facts.outcome, name) for name in ("baseline", "naive", "best"))
    metric = metric_told(best) if number(baseline.get(metric_told(best))) is not None else DEFAULT_METRIC
    baseline_ms, naive_ms = number(baseline.get(metric)), number(naive.get(metric))
    if baseline_ms is None:
        told = "was not measured" if facts.state is CampaignState.STOPPED else "is not measured yet"
        return PartView(title=title, sentence=f"The baseline {told}.")
    is_naive = "configuration" in naive and naive["configuration"] == baseline.get("configuration")
    which = ", the engine's own default," if is_naive else ""
    longer = ""
    if naive_ms and not is_naive:
        longer = f"; the engine's own default took {naive_ms / baseline_ms:.2f}× as long"
    lines = [f"The baseline{which} takes {taken(baseline_ms, metric)}{longer}."]
    if facts.baseline_in_tests is not None:
        lines.append(facts.baseline_in_tests.plain)
    speedup, tpot_ms = number(best.get("speedup")), number(best.get("tpot_ms"))
    if speedup is None or best.get("experiment") is None:
        return PartView(title=title, sentence="Nothing beats the baseline yet.", lines=tuple(lines))
    interval = best.get("speedup_interval")
    around = f" [{interval[0]:.3f}, {interval[1]:.3f}]" if isinstance(interval, list) else ""
    basis = ", multiplied along a chain of supported steps" if best.get("speedup_basis") == "chain" else ""
    beside = f", {against_control(best)}" if tpot_ms is not None else ""
    fresh = facts.differs.get(str(best["experiment"]))
    if fresh is not None:
        lines.append(f"A fresh run, {fresh.experiment}, does not agree: {clause(fresh.why)}.")
    elif doubts := facts.in_doubt.get(str(best["experiment"])):
        lines.append(f"{best['experiment']} is in doubt: {listed(list(doubts))}.")
    pace = machine_changed(best, number(baseline.get(metric_told(best))) or 0.0)
    if pace:
        lines.append(f"{pace[0].upper()}{pace[1:]}.")
    configuration = str(Configuration.of(_part(best, "configuration")))
    if best.get("note") == FASTEST:
        lines += [f"{FASTEST[0].upper()}{FASTEST[1:]}.", configuration]
    else:
        lines.append(configuration)
        lines.append(f"What to deploy is written by: autoinfer export {facts.campaign} --recipe")
    sentence = f"{speedup:.3f}×{around} as fast as the baseline{basis}{beside} ({best['experiment']})."
    return PartView(title=title, sentence=sentence, lines=tuple(lines))


def _part(data: JsonObject, name: str) -> JsonObject:
    part = data.get(name)
    return part if isinstance(part, dict) else {}
