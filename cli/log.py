"""`autoinfer log`."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import DEFAULT_LIMIT, LARGEST_NUMBER, CampaignFilter, Json

if TYPE_CHECKING:
    from cli.console.days import Days
    from db.event_kinds import EventKind
    from db.models import Event


def log(
    ctx: typer.Context,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new events as they come.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="ID", help="Only events after this one, from the oldest on."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind", metavar="KIND", help="Only this kind, or a whole noun (campaign); may be repeated."
        ),
    ] = None,
    campaign: CampaignFilter = None,
    search: Annotated[
        str | None,
        typer.Option("--search", metavar="TEXT", help="Only with this text in what happened or to what."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            min=1,
            max=LARGEST_NUMBER,
            help=f"The most events to show first; {DEFAULT_LIMIT} if not given.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """The running log of events: the last ones, or all since an id.

    With --follow and --json each event is one JSON object on a line of its own.
    """
    from cli.console.days import Days
    from cli.console.opening import database_of, settings_of
    from cli.console.output import print_json, say
    from db import events
    from experiments.stop_flag import StopFlag
    from knowledge.queries.log import event_view
    from knowledge.queries.lookup import campaign_filter

    after = None if since is None else _event_id(since)
    kinds = None if not kind else [each for word in kind for each in _kinds(word)]
    poll_s = settings_of(ctx).log_poll_s
    with database_of(ctx, reads_when_full=True) as database:
        with database.read() as session:
            campaign_id = campaign_filter(session, campaign)
            if after is None:
                shown = events.latest(session, limit or DEFAULT_LIMIT, kinds, campaign_id, search)
            else:
                shown = events.read(session, after, limit, kinds, campaign_id, search)
            last_id = events.last_id(session)
        if as_json and not follow:
            print_json(
                {"events": [event_view(each).model_dump(mode="json") for each in shown], "last_id": last_id}
            )
            return
        if not shown and not follow:
            say("No event is like that." if kind or campaign or since or search else "The log is empty.")
            return
        days = Days()
        for event in shown:
            _print(event, days, as_json)
        if not follow:
            return

        # Not by an exception: that is lost where Python is in a finalizer, and the command would go on.
        interrupted = StopFlag()
        signal.signal(signal.SIGINT, lambda *_: interrupted.set())

        def wait() -> bool:
            return not interrupted.wait(poll_s)

        # What came after the page was read is not passed over: ids are seen in their order.
        resume = shown[-1].id if shown else max(last_id, after or 0)
        for event in events.follow(database, resume, wait, kinds, campaign_id, search):
            _print(event, days, as_json)
    raise KeyboardInterrupt


def _print(event: Event, days: Days, as_json: bool) -> None:
    from cli.console.output import print_json
    from cli.console.written_out import written_out
    from configs.moments import format_clock
    from knowledge.queries.log import event_view

    shown = event_view(event)
    if as_json:
        print_json(shown, line=True)
        return
    day = days.new(event.at)
    if day is not None:
        print(f"{'':8}{day}", flush=True)
    about = event.subject or (f"answer {shown.answer}" if shown.answer else None)
    subject = f"{about}  " if about else ""
    text = written_out(" ".join(shown.brief.split()))
    print(f"{event.id:>6}  {format_clock(event.at)}  {event.kind:<24}  {subject}{text}", flush=True)
    for each in shown.moves:
        print(f"{'':44}{written_out(each)}", flush=True)


def _event_id(text: str) -> int:
    from configs.errors import UsageError

    if not (text.isascii() and text.isdigit()):
        raise UsageError(
            f"--since is an event's id, a whole number, not {text!r}.",
            "The ids stand first on the lines of: autoinfer log",
        )
    # Digits are counted first: Python refuses to read a number of thousands of them.
    if len(text) > len(str(LARGEST_NUMBER)) or int(text) > LARGEST_NUMBER:
        raise UsageError(
            f"--since is an event's id; this one is beyond {LARGEST_NUMBER}, which none can be.",
            "The ids stand first on the lines of: autoinfer log",
        )
    return int(text)


def _kinds(word: str) -> list[EventKind]:
    from configs.errors import UsageError
    from configs.validation import nearest
    from db.event_kinds import EventKind

    found = [kind for kind in EventKind if word in (kind.value, kind.value.partition(".")[0])]
    if not found:
        known = [kind.value for kind in EventKind]
        raise UsageError(
            f"There is no kind of event {word!r}.", nearest(word, known, otherwise="The kinds are")
        )
    return found
