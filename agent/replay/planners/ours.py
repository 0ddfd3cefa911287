"""autoinfer's own planner, fed from a table in place of a worker.

The proposers, the surrogate and the ranking are those of a campaign, unchanged: the parts of `rules`, and
`optuna`, are asked for as many drafts on the best configuration so far as their hit rates earn them, no draft
may leave the table, what waits is kept until another configuration is the best, the surrogate learns from
every trial, and the ranking says which draft comes first, with what must be built shared by all that need it
and what another campaign found best before its own parts.
Where the table is so sparse that the proposers can't fill a queue from it, all that is left of it is ranked.
A trial is judged by its mean: a change counts as supported that is faster by `MIN_EFFECT` and keeps the
quality. A campaign measures its best in several launches before it says so; here what is nearly as good as
the best is measured again where that is worth more a second than anything new (`again.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from random import Random
from statistics import fmean

from agent.campaign.known.incumbent import find_incumbent
from agent.campaign.queue.order import LEAST_DRAFTS, QUEUE_TARGET
from agent.proposers.asking import ask, parts_of
from agent.proposers.carried import NAME as CARRIED
from agent.proposers.carried import taken_over
from agent.proposers.optuna_tpe import OptunaProposer
from agent.proposers.port import CampaignView, CarriedBest, Draft, Measured, Proposer, Trial
from agent.proposers.rules import RulesProposer
from agent.ranking.candidates import candidate_of
from agent.ranking.ranking import rank
from agent.ranking.stopping import WORTH
from agent.ranking.wholes import changes_of
from agent.ranking.wholes import parts_of as parts_of_wholes
from agent.replay.errors_told import errors_log
from agent.replay.planners.again import Mean, worth_again
from agent.replay.port import Problem, Told, accepted, untried
from agent.surrogate.beliefs import Beliefs
from agent.surrogate.carried import Carried
from agent.surrogate.cost_priors import CostPriors
from agent.surrogate.drafting import drafts
from agent.surrogate.expectation import UNKNOWN_SD_LOG, Expectation
from agent.surrogate.levers import Setting, Target, joined
from agent.surrogate.physics import Physics
from agent.surrogate.residual import LAUNCHES_SD_LOG
from experiments.measurement.evidence import Json
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Margins
from experiments.space.configuration import Configuration
from knowledge.hit_rates import Hits, Record

MIN_EFFECT = 0.03
"""The smallest effect worth having: a campaign's default."""

CORES = 2
"""What proposers name as the machine's cores, of which a table tells nothing; it changes no order."""


LEAST_WORTH = 1e-4
"""The least share of a token's time for which anything is measured again once all was tried: below it the
rest of a budget is left. While something was not tried it is `WORTH`, the least for which a campaign tests
anything, since of what was not tried a belief may be wrong."""

LAUNCH_SD_LOG = LAUNCHES_SD_LOG / math.sqrt(2)
"""How far one launch may be off, beside its samples: half of the variance of two of them."""

OPTUNA = OptunaProposer()
"""The proposer that is asked beside the rules."""


@dataclass(frozen=True)
class NoPhysics(Physics):
    """A prior that expects nothing of any lever, each as wide as one that physics does not know."""

    def expect(self, lever: str, setting: Setting, target: Target = ()) -> Expectation:
        """Nothing, as wide."""
        return Expectation(0.0, UNKNOWN_SD_LOG)


class _Remembering:
    """A proposer that is asked several times over one state of a campaign: what it was asked before, with the
    same candidates taken, it does not work out again."""

    def __init__(self, proposer: Proposer) -> None:
        self.name, self._proposer = proposer.name, proposer
        self._brought: dict[tuple[frozenset[str], int], list[Draft]] = {}

    def propose(self, view: CampaignView, count: int) -> list[Draft]:
        """What the proposer says."""
        key = (view.taken, count)
        if key not in self._brought:
            self._brought[key] = self._proposer.propose(view, count)
        return self._brought[key]


class OwnPlanner:
    """Physics, learning, proposers and ranking; see the module's page. `carried` are outcomes of other
    campaigns that it begins with, `bests` what these found best."""

    physics: type[Physics] = Physics
    learns = True

    def __init__(
        self,
        problem: Problem,
        seed: int,
        carried: Sequence[Carried] = (),
        bests: Sequence[CarriedBest] = (),
    ) -> None:
        self._problem, self._seed, self._carried, self._bests = problem, seed, tuple(carried), tuple(bests)
        self._rules = [each for each in parts_of((RulesProposer(),)) if bests or each.name != CARRIED]
        self._records = {each.name: Record() for each in (*self._rules, OPTUNA)}
        self._waiting: dict[Configuration, Draft] = {}
        self._tested: Draft | None = None
        self._in_table = frozenset(problem.configurations)
        self._first: Told | None = None
        self._told: dict[Configuration, Told] = {}
        self._times: Counter[Configuration] = Counter()
        self._errors: Mapping[Configuration, float] = {}
        self._trials: list[Trial] = []

    def tell(self, told: Told) -> None:
        """Judge the trial against the best before it; what was measured again, with all that follows."""
        before = self._told.get(told.configuration)
        if before is None:
            self._told[told.configuration] = told
            self._first = self._first or told
        else:
            self._pool(before, told)
        self._times[told.configuration] += 1
        self._judge()
        if before is None and told is not self._first:
            self._credit(self._trials[-1])
        self.__dict__.pop("_believed", None)

    def ask(self, history: Sequence[Told]) -> Configuration | None:
        """What the ranking puts first of the drafts that are in the table; None after the last."""
        left = untried(self._problem, history)
        again, worth = self._again()
        if not left:
            return again if worth >= LEAST_WORTH else None
        beliefs, best = self._believed, self._best
        view = self._view(beliefs)
        waiting = self._queue(view, left)
        Random(f"{self._seed} {len(history)}").shuffle(waiting)
        about = beliefs.about([(best, candidate) for candidate in waiting])
        found = [taken_over(view, each) for each in self._bests]
        told_best = {each.candidate for each in found if not each.left_out}
        changes = [changes_of(best, candidate) for candidate in waiting]
        wholes = {k: changes[k] for k, candidate in enumerate(waiting) if candidate in told_best}
        candidates = [
            replace(
                candidate_of(number, self._problem.space.levers_between(best, candidate), belief),
                part_of=parts_of_wholes(wholes, changes[number]) if wholes else (),
            )
            for number, (candidate, belief) in enumerate(zip(waiting, about, strict=True))
        ]
        first = rank(candidates).places[0]
        if again is not None and worth >= WORTH and worth / self._told[again].run_s > first.score:
            self._tested = None
            return again
        chosen = waiting[first.hypothesis_id]
        self._tested = self._waiting.pop(chosen, None)
        return chosen

    def predict(self, configuration: Configuration) -> tuple[float, float]:
        """What the surrogate believes of it against the best so far, from that one's mean on, with the errors
        with which that one's mean was measured, and this one's will be."""
        best = self._told[self._best]
        ran = [self._errors[each.configuration] for each in self._told.values() if each.ran]
        error = math.sqrt(fmean(each**2 for each in ran))
        latency = self._believed.latency
        found = latency.foretold(best.configuration, self._measured(best), configuration, error)
        return math.log(best.mean_ms) + found.log_ratio_mean, found.log_ratio_sd

    def _queue(self, view: CampaignView, left: list[Configuration]) -> list[Configuration]:
        """What waits to be ranked, filled up by the proposers, as in a campaign. Where rules can't fill it
        from the table, all that is left of the table, with which whatever could be drafted is among it."""
        kept = {k: each for k, each in self._waiting.items() if each.control == view.incumbent}
        view = replace(view, taken=view.taken | {each.digest for each in kept})
        wanted = max(LEAST_DRAFTS, QUEUE_TARGET - len(kept))
        rules = [_Remembering(each) for each in self._rules]
        if len(ask(view, rules, wanted, self._records, _on_objective)) < wanted:
            return left
        for draft in ask(view, (*rules, OPTUNA), wanted, self._records, _on_objective):
            kept[draft.candidate] = draft
            record = self._records[draft.proposer]
            self._records[draft.proposer] = replace(record, proposed=record.proposed + 1)
        self._waiting = kept
        return list(kept)

    def _again(self) -> tuple[Configuration | None, float]:
        """What measuring again is worth most, and how much: the share of a token's time that it saves."""
        assert self._first is not None
        good = [each for each in self._told.values() if accepted(self._problem, self._first, each)]
        means = []
        for each in good:
            times = self._times[each.configuration]
            error = math.hypot(self._errors[each.configuration], LAUNCH_SD_LOG / math.sqrt(times))
            means.append(Mean(math.log(each.mean_ms), error, error * math.sqrt(times)))
        worth = worth_again(means)
        most = max(range(len(worth)), key=lambda place: worth[place], default=None)
        return (None, 0.0) if most is None else (good[most].configuration, worth[most])

    def _pool(self, before: Told, told: Told) -> None:
        """Put what was told of one configuration together."""
        pooled = replace(before, samples_ms=(*before.samples_ms, *told.samples_ms))
        self._told[told.configuration] = pooled
        if before is self._first:
            self._first = pooled

    def _judge(self) -> None:
        """Judge all trials anew, in their order, each against the best before it: what each is off by may be
        known better than before."""
        tried, self._trials = list(self._told.values()), []
        self._errors = dict(zip(self._told, errors_log(tried), strict=True))
        for each in tried[1:]:
            self._trials.append(self._judged(self._best, each))

    def _credit(self, trial: Trial) -> None:
        """Count the verdict for whoever drafted what was tested; nobody did where all of the table waited."""
        if self._tested is None:
            return
        record = self._records[self._tested.proposer]
        hits = Hits(record.here.supported + (trial.outcome == Outcome.SUPPORTED), record.here.judged + 1)
        self._records[self._tested.proposer] = replace(record, here=hits)

    @property
    def trials(self) -> tuple[Trial, ...]:
        """What it was told, as judged trials, each for itself."""
        return tuple(replace(each, arms=None) for each in self._trials)

    @property
    def baseline_ms(self) -> float:
        """What trial 0 told in the mean, once it was told."""
        assert self._first is not None
        return self._first.mean_ms

    @property
    def carried_weight(self) -> float:
        """The weight that what was carried has now in what it expects of latency."""
        return self._believed.latency.belief.carried_weight

    @property
    def _best(self) -> Configuration:
        return find_incumbent(self._problem.baseline, self._trials).configuration

    def _judged(self, control: Configuration, told: Told) -> Trial:
        assert self._first is not None  # trial 0 came before
        effect = math.log(told.mean_ms / self._told[control].mean_ms) if told.ran else None
        good = accepted(self._problem, self._first, told)
        outcome = Outcome.REFUTED
        if effect is None:
            outcome = Outcome.INFEASIBLE
        elif good and effect < math.log1p(-MIN_EFFECT):
            outcome = Outcome.SUPPORTED
        quality = self._first.quality
        arms = (control, told.configuration)
        return Trial(
            hypothesis_id=told.trial,
            experiment_id=told.trial,
            control=control,
            candidate=told.configuration,
            lever=joined(self._problem.space.levers_between(control, told.configuration)),
            outcome=outcome,
            effect_log=effect,
            effect_se_log=None if effect is None else math.hypot(*(self._errors[each] for each in arms)),
            arms=(self._measured(self._told[control]), self._measured(told)),
            acceptance_length=told.tokens_a_step if drafts(told.configuration) else None,
            bits_ratio_log=math.log(told.quality / quality) if told.quality and quality else None,
            task_points=None,
            cost_s=told.cost_s,
            failure_kind=None if told.ran else told.cause,
            profile=told.profile,
            runs=_nested(told.resolved),
        )

    @cached_property
    def _believed(self) -> Beliefs:
        """What all trials taught, until the next is told."""
        assert self._first is not None
        prior, best = self._problem.prior, self._best
        own = self._told[best].profile if best != self._problem.baseline else ()
        physics = self.physics(
            baseline=self._problem.baseline,
            tpot_ms=self._first.mean_ms,
            profile=self._first.profile,
            model_layers=() if prior.shape is None else prior.shape.layer_types,
            bandwidth_bytes_per_s=prior.bandwidth_bytes_per_s,
            shape=prior.shape,
            serves_packed=prior.serves_packed,
            incumbent_profile=own,
            incumbent_runs=self._told[best].resolved,
        )
        seconds = self._first.run_s
        return Beliefs.learn(
            self._problem.space,
            physics,
            self._trials if self.learns else (),
            Margins(),
            priors=CostPriors(measure_s=seconds, screen_s=seconds, made_up=prior.made_up),
            judges_quality=self._first.quality is not None,
            carried=self._carried,
        )

    def _measured(self, told: Told) -> Measured:
        """A trial's measurement, which all that are held against it share."""
        return Measured(told.configuration.digest, self._errors[told.configuration])

    def _view(self, beliefs: Beliefs) -> CampaignView:
        assert self._first is not None
        prior, best = self._problem.prior, self._told[self._best]
        layers = () if prior.shape is None else prior.shape.layer_types
        return CampaignView(
            space=self._problem.space,
            baseline=self._problem.baseline,
            incumbent=best.configuration,
            incumbent_hypothesis_id=best.trial or None,
            tpot_ms=self._first.mean_ms,
            profile=self._first.profile,
            model_layers=layers,
            cores=CORES,
            trials=tuple(self._trials),
            taken=frozenset(each.digest for each in self._told),
            banned_levers=frozenset(),
            predict=cache(beliefs.predict),
            min_effect=MIN_EFFECT,
            seed=self._seed,
            refused=self._refused,
            serves_packed=prior.serves_packed,
            incumbent_profile=best.profile if best.trial else (),
            incumbent_runs=_nested(best.resolved),
            bandwidth_bytes_per_s=prior.bandwidth_bytes_per_s,
            launches_sd_log=beliefs.latency.launches_sd_log,
            pruning_pays=False,  # what the table lacks no pruning pays for
            carried_bests=self._bests,
        )

    def _refused(self, configuration: Configuration) -> str | None:
        return None if configuration in self._in_table else "The table does not have it."


class WithoutPhysics(OwnPlanner):
    """The same with a prior that knows no physics."""

    physics = NoPhysics


class WithoutLearning(OwnPlanner):
    """The same with a surrogate that stays as it was before the first trial."""

    learns = False


def _on_objective(draft: Draft) -> bool:
    return draft.metric is None


def _nested(resolved: Mapping[str, str]) -> dict[str, Json]:
    """Dotted keys as a resolved configuration has them."""
    found: dict[str, Json] = {}
    for key, value in resolved.items():
        *groups, last = key.split(".")
        at = found
        for group in groups:
            inner = at.setdefault(group, {})
            assert isinstance(inner, dict)
            at = inner
        at[last] = value
    return found
