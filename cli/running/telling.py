"""A campaign as it is told on the terminal while it runs: a header, a line an event, and the result."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cli.console.days import Days
from cli.console.output import console, fields, state
from configs.moments import format_clock
from knowledge.figures import (
    DEFAULT_METRIC,
    against_control,
    counted,
    machine_changed,
    metric_told,
    signed,
    taken,
    taken_of,
)

if TYPE_CHECKING:
    from rich.text import Text

    from agent.campaign.rerun.price_elsewhere import ConfirmTerms
    from agent.plan.plan import Plan
    from agent.plan.price import Prices
    from configs.campaign import CampaignSpec
    from db.models import Event
    from db.session import Database

QUIET_KINDS = frozenset(
    {
        "stage.finished",
        "job.claimed",
        "noise.recorded",
        "worker.started",
        "worker.stopped",
        "experiment.started",
        "experiment.measured",
        "experiment.stopped_early",
        "finding.added",
        "finding.changed",
    }
)
"""Events that the log keeps and the terminal leaves out."""

REUSED = "reused"
"""The outcome of a stage whose result was there already: it is told by its end and not by its beginning,
which would say that it is made once more."""


class Teller:
    """Prints what is new in the event log of a campaign, once."""

    def __init__(self, database: Database, campaign_id: int, *, quiet: bool) -> None:
        from db.events import last_id

        self._database = database
        self._campaign_id = campaign_id
        self._quiet = quiet
        self._out = console()
        self._quiet_kinds = QUIET_KINDS
        self._days = Days(datetime.now(UTC))
        with database.read() as session:
            self._seen = last_id(session)

    def header(
        self,
        spec: CampaignSpec,
        database: str,
        dashboard: str | None = None,
        plan: Plan | None = None,
        warning: str | None = None,
        prices: Prices | None = None,
        there: ConfirmTerms | None = None,
    ) -> None:
        """Say what begins, where everything is kept, and, as far as there are, the address to look at it, the
        plan, the prices of a rented target, and what is to be known before."""
        if self._quiet:
            return
        from agent.campaign.beginning.create import quality_asked
        from agent.plan.further import further_of, own_words
        from cli.sheets.plan import print_start
        from configs.quantities import format_duration
        from db.labels import Noun, format_label
        from knowledge.figures import margin, metric_word
        from knowledge.latency_only import LATENCY_ONLY, UNKNOWN_QUALITY, model_words

        label = format_label(Noun.CAMPAIGN, self._campaign_id)
        model = model_words(spec.model, made_up=spec.latency_only)
        self._out.print(f"autoinfer: campaign {label}, {model} model on {spec.target}, engine {spec.engine}")
        quality = (
            f"{UNKNOWN_QUALITY}, and whatever is supported is so for {LATENCY_ONLY}"
            if spec.latency_only
            else f"quality: {quality_asked(spec)}"
        )
        self._out.print(
            f"worth having: {margin(spec.plan.min_effect)} less {metric_word(spec.plan.metric)}; {quality}; "
            f"budget {format_duration(spec.budget.wall_s)}"
        )
        self._out.print(f"workload: {own_words(spec)}")
        if spec.plan.workload.evaluation_tasks:
            thinks = "thinking" if spec.plan.workload.evaluation_thinking else "without thinking"
            self._out.print(
                f"quality tasks: {', '.join(spec.plan.workload.evaluation_tasks)}, answered {thinks}"
            )
        if spec.further_workloads:
            words = "; ".join(each.words for each in further_of(spec))
            self._out.print(f"told beside each verdict and not judged: {words}")
        self._out.print(f"everything is kept in {database}", style="dim")
        if dashboard is not None:
            self._out.print(f"the dashboard is at {dashboard}")
        if plan is not None:
            print_start(plan)
        if spec.confirm_on and (there is None or not there.told):
            self._out.print(f"what is supported is confirmed on {', '.join(spec.confirm_on)}")
        for each in (*(() if prices is None else prices.told), *(() if there is None else there.told)):
            self._out.print(f"dollars: {each}")
        if warning is not None:
            self._out.print(warning, style=state("warn").style)
        self._out.print()

    def tell_new(self) -> None:
        """Print the events that came since the last call."""
        from db.events import read

        with self._database.read() as session:
            found = read(session, self._seen, campaign_id=self._campaign_id)
            begun_for_nothing = {_stage_of(event, -1) for event in found if _is_reused(event)}
            for event in found:
                self._seen = event.id
                hidden = event.kind in self._quiet_kinds or _stage_of(event) in begun_for_nothing
                if not self._quiet and (not hidden or _is_reused(event)) and not _is_housekeeping(event):
                    self._line(event)
                    self._moves(event)

    def _line(self, event: Event) -> None:
        from rich.text import Text

        outcome = (event.data or {}).get("outcome")
        style = state(outcome).style if isinstance(outcome, str) else ""
        subject = event.subject or ""
        text = event.text.removeprefix(f"{subject}: ")
        if event.kind == "hypothesis.preregistered" and "claim" in (event.data or {}):
            subject, text = _begins(event)
        day = self._days.new(event.at)
        if day is not None:
            self._out.print(day, style="bold")
        self._row(Text(format_clock(event.at), "dim"), Text(subject, "bold"), Text(text, style))

    def _moves(self, event: Event) -> None:
        from rich.text import Text

        from knowledge.queries.log import event_view

        for told in event_view(event).moves:
            self._row(Text(), Text(), Text(told, "dim"))

    def _row(self, at: Text, subject: Text, text: Text) -> None:
        """Print a line whose continuation lines stay under its text."""
        from rich.table import Table

        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(width=8)
        grid.add_column(width=6)
        grid.add_column(overflow="fold", ratio=1)
        grid.add_row(at, subject, text)
        self._out.print(grid)

    def result(self, outcome: dict[str, Any]) -> None:
        """Say what the campaign came to."""
        from configs.quantities import format_duration
        from knowledge.latency_only import FASTEST

        best, baseline, naive = outcome["best"], outcome["baseline"], outcome["naive"]
        self._out.print()
        self._out.print(f"{outcome['campaign_id']} ended: {outcome['stopped_because']}.", style="bold")
        counts = ", ".join(f"{count} {word}" for word, count in outcome["hypotheses"].items() if count)
        spent = outcome["spent"]
        ran = counted(spent["experiments"], "experiment")
        rows: list[tuple[str, str | None]] = [
            ("hypotheses", counts or "none was judged"),
            *_false_ones(outcome),
            ("spent", f"{format_duration(spent['wall_s'])}, {ran}{_dollars(spent)}"),
            ("saved", saved_words(outcome["stopped_early"])),
        ]
        if baseline is not None:
            rows += [
                ("naive default", naive_words(naive, baseline, metric_told(best or {}))),
                ("baseline", f"{_baseline_taken(baseline, best)} ({_knobs(baseline['configuration'])})"),
                ("best", _best_words(best, baseline)),
            ]
        self._out.print(fields(rows))
        if best is not None and best["experiment"] is not None:
            shown = best["experiment"]
            self._out.print(f"\nSamples: autoinfer show {shown} --samples", style="dim")
            self._out.print(f"Confirm: autoinfer reproduce {shown}", style="dim")
            if best["note"] != FASTEST:
                self._out.print(f"Deploy: autoinfer export {outcome['campaign_id']} --recipe", style="dim")
        self._out.print("All of it: autoinfer summary", style="dim")
        if outcome["go_on"] is not None:
            self._out.print(outcome["go_on"])


def _false_ones(outcome: dict[str, Any]) -> list[tuple[str, str | None]]:
    """How many of the supported are expected to be false at most; nothing where nothing was supported."""
    from knowledge.queries.claims.discovery import DiscoveryView, discovery_sentence, outside_sentence

    found = DiscoveryView.model_validate(outcome["discovery"])
    said = [each for each in (discovery_sentence(found), outside_sentence(found)) if each]
    return [("of the supported" if place == 0 else "", each) for place, each in enumerate(said)]


def _dollars(spent: dict[str, Any]) -> str:
    from configs.quantities import format_usd

    return f", {format_usd(spent['usd'])}" if "usd" in spent else ""


def _is_housekeeping(event: Event) -> bool:
    """Whether the agent only replaced proposals of its own by the same on a better configuration."""
    from agent.proposers.user import was_asked_for

    data = event.data or {}
    by_agent = event.kind == "hypothesis.withdrawn" and data.get("by") == "agent"
    return by_agent and not was_asked_for(str(data.get("proposer")))


def _is_reused(event: Event) -> bool:
    return event.kind == "stage.finished" and (event.data or {}).get("outcome") == REUSED


def _stage_of(event: Event, turns: int = 0) -> tuple[object, ...] | None:
    """Which word of a stage it is, or the one that came so many turns after it; None of any other event."""
    data = event.data or {}
    if "turn" not in data:
        return None
    return event.subject, data.get("stage"), data.get("attempt"), data["turn"] + turns


def _begins(event: Event) -> tuple[str, str]:
    """The experiment that begins, and what it tests: the seal and the level are in the log."""
    from db.labels import Noun, format_label

    data = event.data or {}
    why = f"; {data['why_now']}" if data.get("why_now") else ""
    where = f" on {data['device']}" if data.get("device") else ""
    tested = f"tests {event.subject}{where}: {str(data.get('claim', '')).rstrip('.')}"
    return format_label(Noun.EXPERIMENT, data["experiment_id"]), tested + why


def saved_words(early: dict[str, Any]) -> str | None:
    """What stopping early saved, where any experiment tells the time of its full plan."""
    from configs.quantities import format_duration
    from knowledge.queries.spent.saved_time import LAUNCH_TIME

    if not early["experiments"]:
        return None
    saved, planned = (format_duration(early[key]) for key in ("saved_s", "planned_s"))
    if not early.get("by_clock"):
        return f"{saved} of {planned} of planned {LAUNCH_TIME}, by stopping early"
    return f"{saved} by the clock by stopping early, of an estimated {planned} for the whole plans"


def naive_words(naive: dict[str, Any], baseline: dict[str, Any], metric: str = DEFAULT_METRIC) -> str:
    """The engine's own default against the baseline, as both ran side by side in the sweep, on the metric
    that the campaign is about."""
    if naive["configuration"] == baseline["configuration"]:
        return "is the baseline"
    swept, chosen = naive["sweep_tpot_ms"], baseline["sweep_tpot_ms"]
    if swept is None or chosen is None:
        return "did not run" if naive.get("failed") is None else f"did not run: {naive['failed']}"
    own = naive.get(metric), baseline.get(metric)
    if metric != DEFAULT_METRIC and None not in own:
        swept, chosen = own
    both = f"{swept:.2f} against {chosen:.2f} ms {taken_of(metric)}"
    return f"took {swept / chosen:.2f}× the baseline's time in the sweep ({both})"


def _baseline_taken(baseline: dict[str, Any], best: dict[str, Any]) -> str:
    """What the baseline takes: what the campaign is after first, and a token, where that is another time."""
    metric, a_token = metric_told(best), f"{baseline['tpot_ms']:.2f} ms a token"
    return a_token if metric == DEFAULT_METRIC else f"{taken(baseline[metric], metric)}, {a_token}"


def _best_words(best: dict[str, Any], baseline: dict[str, Any]) -> str:
    if best["experiment"] is None:
        told = "the baseline; nothing measured beats it by the smallest effect worth having"
        return f"{told}; {best['note']}" if best["note"] else told
    interval = best["speedup_interval"]
    around = "" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]"
    words = f"{against_control(best)}, {best['speedup']:.3f}×{around} as fast as the baseline"
    if best["bits_per_byte"] is not None and baseline["bits_per_byte"] is not None:
        change = 100 * (best["bits_per_byte"] / baseline["bits_per_byte"] - 1)
        words += f", bits per byte {signed(change)} %"
    notes = (best["note"], machine_changed(best, baseline.get(metric_told(best)) or 0.0))
    note = "".join(f"; {each}" for each in notes if each)
    return f"{words} ({_knobs(best['configuration'])}), {best['experiment']}{note}"


def _knobs(configuration: dict[str, Any]) -> str:
    from cli.console.words import configuration_words

    return configuration_words(configuration)
