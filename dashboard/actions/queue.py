"""What a person does about the queue: the acts of `autoinfer pin`, `move`, `withdraw`, `focus` and the rest.

An act is told what its sender saw, and refused in a sentence where somebody else acted meanwhile, so that
of two who edit one view the second never undoes the first unknowingly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from configs.errors import AutoinferError, UsageError
from configs.quantities import format_usd, parse_usd
from configs.reasons import reason_given
from dashboard.actions.acts import add_acts, refused
from dashboard.actions.forms import Form, read_form, takes
from dashboard.rendering.environment import render
from dashboard.routes import Server
from db.campaign_owner import is_driven
from db.labels import Noun, format_label, parse_label_of
from db.models import Campaign
from db.money import usd
from db.session import Database
from db.states import DirectiveKind
from knowledge.acts import approving, job_approvals, lever_steering, night, steering
from knowledge.acts.allowances import ALLOTTING, Allowance, parse_least, parse_most
from knowledge.acts.directives import hypothesis_label
from knowledge.acts.lever_steering import LEVER_DIRECTIVES
from knowledge.acts.levers import known_levers
from knowledge.queries.going_on import going_on
from knowledge.queries.lookup import campaign_of, labelled
from knowledge.queries.order.queue_board import last_act, last_ranking

NEXT = "The next ranking follows it."


def pin(session: Session, form: Form) -> str:
    """Put a hypothesis first."""
    found = steering.pin(session, _hypothesis(session, form))
    return f"{format_label(Noun.HYPOTHESIS, found.id)} is pinned. {NEXT}"


def unpin(session: Session, form: Form) -> str:
    """Take a pin off."""
    found = steering.unpin(session, _hypothesis(session, form))
    return f"{format_label(Noun.HYPOTHESIS, found.id)} is no longer pinned. {NEXT}"


def move(session: Session, form: Form) -> str:
    """Put a hypothesis at a place."""
    place = form.place("to")
    number = _hypothesis(session, form)
    _check_ranking(session, form)
    found = steering.move(session, number, place)
    return f"{format_label(Noun.HYPOTHESIS, found.id)} is put at place {place}. {NEXT}"


def unmove(session: Session, form: Form) -> str:
    """Let a hypothesis go back to where its score puts it."""
    found = steering.unmove(session, _hypothesis(session, form))
    return f"{format_label(Noun.HYPOTHESIS, found.id)} goes where its score puts it. {NEXT}"


def withdraw(session: Session, form: Form) -> str:
    """Take a hypothesis out of the queue for good."""
    why = form.text("why")
    found = steering.withdraw(session, _hypothesis(session, form), why)
    because = "" if why is None else f": {reason_given(why)}"
    return f"{format_label(Noun.HYPOTHESIS, found.id)} is withdrawn{because}."


def approve(session: Session, form: Form) -> str:
    """Let a hypothesis that waits for approval be tested, up to the cost that the sender saw."""
    found = approving.approve(session, _hypothesis(session, form), form.seconds("up_to_s"))
    return f"{hypothesis_label(found)} is approved: it is tested when its turn comes."


def unapprove(session: Session, form: Form) -> str:
    """Take an approval back."""
    found = approving.unapprove(session, _hypothesis(session, form))
    return f"{hypothesis_label(found)} is not approved any more."


def steer(session: Session, form: Form) -> str:
    """Focus, boost, ban or cap a lever, or keep a share of the tests for it."""
    kind, lever = _kind(form), form.required("lever")
    campaign_id = campaign_of(session, form.required("campaign"))
    levers = known_levers(session, campaign_id)
    found = lever_steering.give_directive(session, campaign_id, kind, lever, levers, _allowance(form, kind))
    return f"{found.text} {NEXT}"


def lift(session: Session, form: Form) -> str:
    """Lift what was said of a lever."""
    kind, lever = _kind(form), form.required("lever")
    lever_steering.lift_directives(session, campaign_of(session, form.required("campaign")), kind, lever)
    return f"The {kind.value} on {lever} is lifted. {NEXT}"


def question(session: Session, form: Form) -> str:
    """Make a hypothesis the question of the night."""
    found = night.ask(session, _hypothesis(session, form))
    return f"{found.text} {NEXT}"


def unquestion(session: Session, form: Form) -> str:
    """Take the question of the night back."""
    found = night.take_back(session, campaign_of(session, form.required("campaign")))
    label = format_label(Noun.HYPOTHESIS, found.hypothesis_id or 0)
    return f"{label} is no longer the question of the night. {NEXT}"


def approve_price(session: Session, form: Form) -> str:
    """Let a job on rented machines be submitted for the price that the sender saw."""
    job_id, up_to = parse_label_of(Noun.JOB, form.required("job")), form.text("up_to_usd")
    quote = job_approvals.approve_price(session, job_id, None if up_to is None else parse_usd(up_to))
    most = format_usd(usd(quote.approved_microusd or 0))
    return f"{format_label(Noun.JOB, job_id)} may be submitted when its turn comes, for {most} at most."


def pause(session: Session, form: Form) -> str:
    """Let the campaign take nothing new."""
    return _live(
        session,
        form,
        steering.pause_campaign,
        "is paused; what runs is finished.",
        "is paused; no process drives it now.",
    )


def resume(session: Session, form: Form) -> str:
    """Let a paused campaign go on."""
    return _live(
        session,
        form,
        steering.resume_campaign,
        "goes on.",
        "is no longer paused, but no process drives it now.",
    )


def stop(session: Session, form: Form) -> str:
    """End the campaign."""
    if form.text("sure") is None:
        raise UsageError("Stopping ends the campaign.", "Tick the box beside it to say that you mean it.")
    return _live(session, form, steering.stop_campaign, "ends when what runs is finished.", "has ended.")


ACTS: Mapping[str, Callable[[Session, Form], str]] = {
    each.__name__: each
    for each in (
        pin,
        unpin,
        move,
        unmove,
        approve,
        unapprove,
        approve_price,
        withdraw,
        steer,
        lift,
        question,
        unquestion,
        pause,
        resume,
        stop,
    )
}
"""Each act by the last part of its address; it returns what was done in a sentence."""

CAMPAIGN = {
    "campaign": "Its label.",
    "seen": "What the sender saw, as its page says; refused where somebody acted since.",
    "chosen": "Anything, to go back to the page of this campaign.",
}
HYPOTHESIS = {**CAMPAIGN, "hypothesis": "Its label."}
LEVER = {**CAMPAIGN, "kind": "focus, boost, ban, cap or reserve.", "lever": "Its name."}
TAKES = {
    "pin": takes(HYPOTHESIS, ["hypothesis"]),
    "unpin": takes(HYPOTHESIS, ["hypothesis"]),
    "move": takes({**HYPOTHESIS, "to": "The place, 1 the first."}, ["hypothesis", "to"]),
    "unmove": takes(HYPOTHESIS, ["hypothesis"]),
    "approve": takes(
        {**HYPOTHESIS, "up_to_s": "The expected seconds up to which it holds; the quote's if not given."},
        ["hypothesis"],
    ),
    "approve_price": takes(
        {
            **CAMPAIGN,
            "job": "Its label.",
            "up_to_usd": "Dollars that it may cost at most; what its quote says if not given.",
        },
        ["job"],
    ),
    "unapprove": takes(HYPOTHESIS, ["hypothesis"]),
    "withdraw": takes({**HYPOTHESIS, "why": "The reason, kept with it."}, ["hypothesis"]),
    "steer": takes(
        {**LEVER, "amount": "Of a cap: tests (3), time (20m) or a share (30%); of a reserve: a share."},
        ["campaign", "kind", "lever"],
    ),
    "question": takes(HYPOTHESIS, ["hypothesis"]),
    "unquestion": takes(CAMPAIGN, ["campaign"]),
    "lift": takes(LEVER, ["campaign", "kind", "lever"]),
    "pause": takes(CAMPAIGN, ["campaign"]),
    "resume": takes(CAMPAIGN, ["campaign"]),
    "stop": takes({**CAMPAIGN, "sure": "Anything, to say that it is meant."}, ["campaign", "sure"]),
}
"""The form of each act."""

LIVES = ("pause", "resume", "stop", "approve_price")
"""Acts that are refused by the state of the campaign or of the job itself, whoever else did what."""


def do(database: Database, name: str, form: Form) -> str:
    """Do an act in one transaction; raises `UsageError` for what can't be done, saying why."""
    with database.write() as session:
        if name not in LIVES:
            _check_acts(session, form)
        return ACTS[name](session, form)


def add_queue_acts(app: FastAPI, server: Server) -> None:
    """Add the acts' routes to the app."""
    add_acts(app, "queue", {name: _endpoint(server, name) for name in ACTS}, TAKES)


def _endpoint(server: Server, name: str) -> Callable[..., object]:
    async def act(request: Request) -> Response:
        form = None
        try:
            form = await read_form(request)
            said = await run_in_threadpool(do, server.database, name, form)
        except AutoinferError as error:
            return answer(request, form, error)
        return answer(request, form, said)

    act.__doc__ = ACTS[name].__doc__
    return act


def answer(request: Request, form: Form | None, said: str | AutoinferError) -> Response:
    """A sentence for a page that stays, else the way back to the page or a page that says why not."""
    back = _back(form)
    if isinstance(said, AutoinferError):
        return refused(request, said, back)
    if request.headers.get("hx-request"):
        return HTMLResponse(render("queue/_said.html", {"said": said, "failed": False}))
    return RedirectResponse(back, 303)


def _back(form: Form | None) -> str:
    """The queue of the campaign that the form was about."""
    campaign = None if form is None else form.text("campaign")
    here = None if form is None else form.text("hypothesis")
    query = f"?{urlencode({'campaign': campaign})}" if campaign and form and form.text("chosen") else ""
    return f"/queue{query}" + (f"#{here}" if here and here.replace("-", "").isalnum() else "")


def _hypothesis(session: Session, form: Form) -> int:
    return labelled(session, Noun.HYPOTHESIS, form.required("hypothesis"))


def _kind(form: Form) -> DirectiveKind:
    word = form.required("kind")
    known = [each.value for each in LEVER_DIRECTIVES]
    if word not in known:
        raise UsageError(
            f"{word[:40]!r} is nothing to do with a lever.", f"Write one of: {', '.join(known)}."
        )
    return DirectiveKind(word)


def _allowance(form: Form, kind: DirectiveKind) -> Allowance | None:
    """How much a cap or a reserve says; what stands in the form of another kind counts for nothing."""
    if kind not in ALLOTTING:
        return None
    amount = form.text("amount")
    if amount is None:
        example = "3, 20m or 30%" if kind is DirectiveKind.CAP else "30%"
        raise UsageError(f"How much? A {kind.value} takes an amount.", f"Write such as {example}.")
    return parse_most(amount) if kind is DirectiveKind.CAP else parse_least(amount)


def _live(
    session: Session, form: Form, act: Callable[[Session, int], Campaign], driven: str, undriven: str
) -> str:
    """Do it, and say what was done, of a campaign that no process drives with how it goes on."""
    campaign_id = campaign_of(session, form.required("campaign"))
    is_now = driven if is_driven(session, act(session, campaign_id)) else undriven
    go_on = going_on(session, campaign_id)
    said = f"{format_label(Noun.CAMPAIGN, campaign_id)} {is_now}"
    return said if go_on is None else f"{said} {go_on}"


def _check_acts(session: Session, form: Form) -> None:
    """Raise `UsageError` where somebody acted on the queue after the sender looked at it."""
    seen = form.text("seen")
    if seen is None:
        return
    newest = last_act(session, campaign_of(session, form.required("campaign")))
    if newest is not None and str(newest.event_id) != seen.partition(".")[0]:
        raise UsageError(
            f"Somebody changed the queue meanwhile: {newest.text}",
            "Look at it as it is now, then act again.",
        )


def _check_ranking(session: Session, form: Form) -> None:
    """Raise `UsageError` where a place means another one than the sender saw."""
    seen = form.text("seen")
    if seen is None:
        return
    ranking = last_ranking(session, campaign_of(session, form.required("campaign")))
    if str(ranking) != seen.partition(".")[2]:
        raise UsageError(
            "The queue was put in order again meanwhile, so that the place means another one now.",
            "Look at it as it is now, then move again.",
        )
