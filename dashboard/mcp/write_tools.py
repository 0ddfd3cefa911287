"""The tools that write, each through the same functions as the commands. A docstring is what the client is
told of its tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from pydantic import Field

from configs.authors import BY_TOKEN
from dashboard.mcp import answers, arguments, writing
from dashboard.mcp.serving import token_name
from dashboard.mcp.source import Source
from db.states import DirectiveKind

AnyContext = Context[Any, Any]

Kind = Annotated[
    Literal["focus", "boost", "ban", "cap", "reserve"],
    Field(
        description="focus: rank it before all else. boost: raise it. ban: test nothing of it. cap: at most "
        "`amount`. reserve: at least `amount` of all tests."
    ),
]
OneLever = Annotated[str, Field(description="A lever of the campaign's space.", max_length=200)]


def author_of(context: AnyContext) -> str:
    """Who calls, as what is written is marked: by the name of its token, else by its own word."""
    token = token_name(context.request_context.request)
    if token is not None:
        return BY_TOKEN + token
    known = context.request_context.session.client_params
    return writing.author_named(None if known is None else known.client_info.name)


class WriteTools:
    """Tools that write into one database; `check` raises where a tool is not allowed on this server."""

    def __init__(self, source: Source, check: Callable[[str], None]) -> None:
        self._source, self._check = source, check

    def propose(
        self,
        context: AnyContext,
        claim: arguments.Claim,
        assignments: arguments.Assignments,
        expect: arguments.Expect = None,
        min_effect: arguments.MinEffect = None,
        metric: Annotated[
            str | None,
            Field(
                description="What the claim is about, such as nll_bits; the campaign's if not given.",
                max_length=80,
            ),
        ] = None,
        why: Annotated[str | None, Field(description="Why you expect it.", max_length=2000)] = None,
        campaign: arguments.Campaign = None,
    ) -> answers.Done:
        """Put a hypothesis into the queue, to be tested against the best configuration so far.

        It is refused where the space, the memory or an earlier hypothesis forbids it. It is ranked, paid for
        and judged like any other: it may wait for the user's approval, and is not tested where it is not
        worth its price. Your prediction is sealed before the first sample and held against the outcome.
        """
        self._check("propose")
        return writing.propose(
            self._source,
            author_of(context),
            campaign=campaign,
            claim=claim,
            assignments=assignments,
            expect=expect,
            min_effect=min_effect,
            metric=metric,
            why=why,
        )

    def withdraw(
        self,
        context: AnyContext,
        hypothesis: arguments.Hypothesis,
        reason: Annotated[str, Field(description="Why, kept with it.", min_length=1, max_length=500)],
    ) -> answers.Done:
        """Take a hypothesis that you proposed out of the queue for good; one of others is refused."""
        self._check("withdraw")
        author = author_of(context)
        with self._source.write(author) as session:
            return writing.withdraw(session, author, hypothesis, reason)

    def note(
        self,
        context: AnyContext,
        text: Annotated[str, Field(description="What was done or seen.", min_length=1, max_length=2000)],
        stale: Annotated[
            str | None,
            Field(
                description="Findings that no longer hold because of it: by label, lever, knob or scope "
                "(torch=2.13.0).",
                max_length=200,
            ),
        ] = None,
        campaign: arguments.OneCampaign = None,
    ) -> answers.Done:
        """Write a note into the log, such as a driver that was changed; may mark findings stale."""
        self._check("note")
        author = author_of(context)
        with self._source.write(author) as session:
            return writing.note(session, author, text, stale, campaign)

    def steer(
        self,
        context: AnyContext,
        kind: Kind,
        lever: OneLever,
        amount: Annotated[
            str | None,
            Field(
                description="Of a cap: tests (3), time (20m) or a share (30%). Of a reserve: a share.",
                max_length=20,
            ),
        ] = None,
        campaign: arguments.Campaign = None,
    ) -> answers.Done:
        """Steer a campaign by a lever; refused where it contradicts or would replace what the user said."""
        self._check("steer")
        author = author_of(context)
        with self._source.write(author) as session:
            return writing.steer(session, author, DirectiveKind(kind), lever, amount, campaign)

    def lift(
        self, context: AnyContext, kind: Kind, lever: OneLever, campaign: arguments.Campaign = None
    ) -> answers.Done:
        """Lift a directive that you gave; one of the user's is refused."""
        self._check("lift")
        author = author_of(context)
        with self._source.write(author) as session:
            return writing.lift(session, author, DirectiveKind(kind), lever, campaign)

    def add_finding(
        self,
        context: AnyContext,
        claim: Annotated[str, Field(description="What is so, in a sentence.", min_length=1, max_length=2000)],
        assignments: arguments.Assignments | None = None,
        says: Annotated[
            Literal["helps", "does-not-help", "breaks-quality", "does-not-run"],
            Field(description="What it says of the change."),
        ] = "helps",
        effect: Annotated[
            str | None,
            Field(
                description="The effect that was seen, such as tpot=-5% or, with its standard deviation, "
                "tpot=-5%±2%; only with helps.",
                max_length=40,
            ),
        ] = None,
        model: Annotated[
            str | None, Field(description="The campaign's if not given.", max_length=300)
        ] = None,
        target: Annotated[
            str | None, Field(description="The campaign's if not given.", max_length=200)
        ] = None,
        engine: Annotated[
            str | None, Field(description="The campaign's if not given.", max_length=80)
        ] = None,
        versions: Annotated[
            list[Annotated[str, Field(max_length=120)]] | None,
            Field(description="PACKAGE=VERSION each, that it was seen with.", max_length=20),
        ] = None,
        campaign: arguments.Campaign = None,
    ) -> answers.Done:
        """Write down what is known from elsewhere, with where it holds.

        It is marked as told by you, has no evidence, is never pooled with what was measured, and is disputed
        by it like any other.
        """
        self._check("add_finding")
        author = author_of(context)
        telling = writing.telling_of(
            author, claim, assignments or (), says, effect, model, target, engine, versions or ()
        )
        with self._source.write(author) as session:
            return writing.add_finding(session, telling, campaign)


WRITES = ("propose", "withdraw", "note", "steer", "lift", "add_finding")
"""The tools that write, as `--allow` names them."""
