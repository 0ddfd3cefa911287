"""What a person does about money: budgets, prices to approve, and the end of everything that is paid for.

Acts that end something are sent with what their sender was shown, and end nothing else: a run that was
submitted meanwhile refuses the whole act, and of a provider's unknown runs only those that were listed are
ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool

from configs.errors import AutoinferError, UsageError
from configs.quantities import format_usd, parse_usd
from dashboard.actions.acts import add_acts, refused
from dashboard.actions.forms import Form, read_form, takes
from dashboard.actions.queue import approve_price
from dashboard.rendering.environment import render
from dashboard.routes import Server
from dashboard.shell import links
from db import money
from db.remote_runs import executors_known
from db.states import BudgetScope
from experiments.remote.ending import Make, Stopped, Stranger, stop_all, strangers
from knowledge.acts import budgeting

PAGE = "/costs"

LIST, END = "list", "end"
"""What is done about runs that only their provider knows."""


@dataclass(frozen=True)
class Told:
    """What was done, in sentences; `whole` is false where something was not. `strangers` are runs that only
    their providers know and that still run, to be asked about."""

    sentences: tuple[str, ...]
    whole: bool = True
    strangers: tuple[Stranger, ...] = ()


def set_budget(server: Server, form: Form) -> Told:
    """Set or change a budget."""
    limit, above = money.microusd(parse_usd(form.required("usd"))), form.text("approve_above")
    asks = None if above is None else money.microusd(parse_usd(above))
    with server.database.write() as session:
        scope, name = budgeting.scope_of(session, *_named(form))
        _check_seen(money.budgets(session), scope, name, form)
        _, text = budgeting.set_budget(session, scope, name, limit, asks)
    return Told((text,))


def drop_budget(server: Server, form: Form) -> Told:
    """Take a budget away."""
    with server.database.write() as session:
        scope, name = budgeting.scope_of(session, *_named(form))
        _check_seen(money.budgets(session), scope, name, form)
        return Told((budgeting.drop_budget(session, scope, name),))


def approve(server: Server, form: Form) -> Told:
    """Let a job on rented machines be submitted for the price that the sender saw."""
    with server.database.write() as session:
        return Told((approve_price(session, form),))


def stop_remote(server: Server, form: Form) -> Told:
    """End every run on rented machines, and cancel what waits with a price."""
    if form.text("sure") is None:
        raise UsageError(
            "This ends everything that is paid for.", "Tick the box beside it to say that you mean it."
        )
    seen = [_number(each) for each in form.texts("run")]
    stopped, waiting = stop_all(server.database, _make(server), seen, form.text("why"))
    sentences = [_stopped(each) for each in stopped]
    if waiting:
        sentences.append(f"Cancelled before they were submitted: {', '.join(waiting)}.")
    nothing = "Nothing remote runs that this database knows of."
    return Told(tuple(sentences) or (nothing,), all(each.fault is None for each in stopped))


def reconcile(server: Server, form: Form) -> Told:
    """Ask every executor that was used here what is alive that this database knows nothing of, and end those
    of it that the sender was shown and names."""
    what, refs = form.required("do"), form.texts("ref")
    if what not in (LIST, END):
        raise UsageError(f"{what[:40]!r} is nothing to do with unknown runs.", f"Write {LIST} or {END}.")
    if what == END and not refs:
        raise UsageError("No run was named, so none was ended.", "Tick those that are to end.")
    return _reconciled(server, refs if what == END else None)


ACTS: Mapping[str, Callable[[Server, Form], Told]] = {
    each.__name__: each for each in (set_budget, drop_budget, approve, stop_remote, reconcile)
}
"""Each act by the last part of its address."""

BUDGET = {
    "of": "target, campaign or day.",
    "name": "The target, such as modal:H100!, or the label of the campaign; nothing of a day.",
    "seen": "The budget as its sender saw it; refused where somebody changed it since.",
}
RUN = "A run that the sender was shown, by its id, again for each; another one that runs refuses the act."
TAKES = {
    "set_budget": takes(
        {**BUDGET, "usd": "The limit, dollars.", "approve_above": "Dollars above which a job waits for you."},
        ["of", "usd"],
    ),
    "drop_budget": takes(BUDGET, ["of"]),
    "approve": takes(
        {"job": "Its label.", "up_to_usd": "Dollars that it may cost at most; its quote if not given."},
        ["job"],
    ),
    "stop_remote": takes(
        {"run": RUN, "why": "The reason, kept with each job.", "sure": "Anything, to say that it is meant."},
        ["sure"],
    ),
    "reconcile": takes(
        {"do": "list, or end for those that are named.", "ref": "A run as it was listed; again for each."},
        ["do"],
    ),
}
"""The form of each act."""


def add_costs_acts(app: FastAPI, server: Server) -> None:
    """Add the acts' routes to the app."""
    add_acts(app, PAGE.removeprefix("/"), {name: _endpoint(server, name) for name in ACTS}, TAKES)


def _endpoint(server: Server, name: str) -> Callable[..., object]:
    async def act(request: Request) -> Response:
        try:
            told = await run_in_threadpool(ACTS[name], server, await read_form(request))
        except AutoinferError as error:
            return refused(request, error, PAGE)
        return _answer(request, told)

    act.__doc__ = ACTS[name].__doc__
    return act


def _answer(request: Request, told: Told) -> Response:
    """Sentences for a page that stays; without htmx the way back, or a page where there is more to say."""
    status = 200 if told.whole else 503
    if request.headers.get("hx-request"):
        return HTMLResponse(render("costs/_told.html", {"told": told}), status)
    if told.whole and not told.strangers and len(told.sentences) == 1:
        return RedirectResponse(PAGE, 303)
    return HTMLResponse(render("costs/told.html", {"told": told, "links": links(), "back": PAGE}), status)


def _named(form: Form) -> tuple[str | None, bool, str | None]:
    """Campaign, day, target of a form, as `budgeting.scope_of` takes them."""
    of, name = form.required("of"), form.text("name")
    if of not in set(BudgetScope):
        raise UsageError(f"{of[:40]!r} has no budget.", "Write target, campaign or day.")
    if of == BudgetScope.DAY:
        if name is not None:
            raise UsageError(
                "The budget of every day has no name.", "Leave it empty, or choose a target or a campaign."
            )
        return None, True, None
    if name is None:
        such = "modal:H100!" if of == BudgetScope.TARGET else "C-1"
        raise UsageError(f"The form does not say which {of}.", f"Write one such as {such}.")
    return (name, False, None) if of == BudgetScope.CAMPAIGN else (None, False, name)


def _check_seen(standings: list[money.BudgetStanding], scope: BudgetScope, name: str, form: Form) -> None:
    """Raise `UsageError` where the budget is not as its sender saw it."""
    seen = form.text("seen")
    found = next((each for each in standings if (each.scope, each.name) == (scope, name)), None)
    if seen is None or (found is not None and seen == found.version):
        return
    raise UsageError(
        "Somebody changed this budget meanwhile, so it was left as it is.", "Look at it, then say it again."
    )


def _make(server: Server) -> Make:
    if server.ground.executor is None:
        raise UsageError("This server can't ask providers.", "End what runs with: autoinfer stop --remote")
    return server.ground.executor


def _reconciled(server: Server, refs: tuple[str, ...] | None) -> Told:
    """What is alive that is not known here, after `refs` of it were ended."""
    make = _make(server)
    with server.database.read() as session:
        asked = executors_known(session)
    if not asked:
        return Told(("This database has used no remote executor, so there is nobody to ask.",))
    found: list[Stranger] = []
    faults: list[str] = []
    for name in asked:
        try:
            found += strangers(server.database, name, make(name, None), end=refs is not None, seen=refs)
        except AutoinferError as error:
            faults.append(f"{name} could not be asked: {error}")
    faults += [f"{each.ref} was NOT ended: {each.fault}" for each in found if each.fault is not None]
    ended = ", ".join(each.ref for each in found if each.ended)
    left = tuple(each for each in found if not each.ended)
    sentences = [f"Ended: {ended}."] if ended else []
    if not found and not faults:
        sentences = [f"Every run that is alive at {', '.join(asked)} is known here."]
    return Told((*sentences, *faults), not faults, left)


def _stopped(run: Stopped) -> str:
    if run.fault is not None:
        return f"{run.job} on {run.target} was NOT ended: {run.fault}"
    cost = "what it cost is not known" if run.cost is None else f"it cost {format_usd(run.cost.usd)}"
    return f"{run.job} on {run.target} has ended; {cost}."


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise UsageError(f"{text[:40]!r} is no run.", "Send it from the page again.")
    return int(text)
