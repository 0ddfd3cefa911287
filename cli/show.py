"""`autoinfer show`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import Json

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from db.labels import Noun

_ARTIFACT = re.compile(r"A-([0-9a-f]{4,64})", re.IGNORECASE | re.ASCII)


def show(
    ctx: typer.Context,
    label: Annotated[
        str, typer.Argument(metavar="ID", help="A label (C-1 H-021 E-0020 F-006) or A- and a digest.")
    ],
    samples: Annotated[
        bool, typer.Option("--samples", help="Of an experiment, print every raw sample.")
    ] = False,
    log: Annotated[
        bool, typer.Option("--log", help="Of an experiment, print the log of its runs instead.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="With --log, go on until the experiment has ended.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Everything about one thing, named by its label or digest.

    An experiment is shown with its hypothesis, its verdict and interval, both arms launch by launch, what ran
    differently, environment, stages, artifacts, and the command that reproduces it.
    """
    from cli.console.opening import reading
    from cli.show_log import show_log
    from configs.errors import UsageError
    from db.labels import Noun, parse_label
    from knowledge.queries.lookup import existing

    artifact = _ARTIFACT.fullmatch(label.strip())
    noun, number = (None, 0) if artifact else parse_label(label)
    for option, given in (("--samples", samples), ("--log", log)):
        if given and noun is not Noun.EXPERIMENT:
            raise UsageError(f"{option} belongs to an experiment, and {label} is none.", "Leave it out.")
    if follow and not log:
        raise UsageError("--follow goes on with a log.", f"Write: autoinfer show {label} --log --follow")
    if log and samples:
        raise UsageError("A log is shown without --samples.", "Leave one of the two out.")
    if follow and as_json:
        raise UsageError("A log is followed as text, not as JSON.", "Leave one of the two out.")
    with reading(ctx) as session:
        if log:
            existing(session, Noun.EXPERIMENT, number)
        elif artifact is not None:
            _show_artifact(session, artifact.group(1).lower(), as_json)
        else:
            assert noun is not None
            _show(session, noun, number, samples, as_json)
    if log:
        show_log(ctx, number, follow=follow, as_json=as_json)


def _show(session: Session, noun: Noun, number: int, samples: bool, as_json: bool) -> None:
    from configs.errors import UsageError
    from db.labels import Noun, format_label
    from knowledge.queries.lookup import existing

    showers = {
        Noun.CAMPAIGN: _show_campaign,
        Noun.HYPOTHESIS: _show_hypothesis,
        Noun.FINDING: _show_finding,
    }
    existing(session, noun, number)
    if noun is Noun.EXPERIMENT:
        _show_experiment(session, number, samples, as_json)
    elif noun in showers:
        showers[noun](session, number, as_json)
    else:
        raise UsageError(
            f"{format_label(noun, number)} is a {noun.word}, of which there is no page.",
            "Show its campaign (C-…) or its experiment (E-…); the log tells which.",
        )


def _show_experiment(session: Session, number: int, samples: bool, as_json: bool) -> None:
    from cli.console.output import print_json
    from cli.sheets.experiment import print_experiment
    from knowledge.queries.measured.experiment_detail import experiment_detail

    detail = experiment_detail(session, number, samples=samples, judge=True)
    print_json(detail) if as_json else print_experiment(detail)


def _show_hypothesis(session: Session, number: int, as_json: bool) -> None:
    from cli.console.output import print_json
    from cli.sheets.hypothesis import print_hypothesis
    from knowledge.queries.claims.hypothesis_detail import hypothesis_detail

    detail = hypothesis_detail(session, number)
    print_json(detail) if as_json else print_hypothesis(detail)


def _show_finding(session: Session, number: int, as_json: bool) -> None:
    from cli.console.output import print_json
    from cli.sheets.finding import print_finding
    from knowledge.queries.found.finding_detail import finding_detail

    finding = finding_detail(session, number)
    print_json(finding) if as_json else print_finding(finding)


def _show_campaign(session: Session, number: int, as_json: bool) -> None:
    from cli.console.output import print_json
    from cli.sheets.campaign import print_campaign
    from knowledge.queries.campaigns import campaign_detail
    from knowledge.queries.found.verification import verification

    campaign, verified = campaign_detail(session, number), verification(session, number)
    if as_json:
        told = {"verification": verified.model_dump(mode="json")}
        print_json({**campaign.model_dump(mode="json"), **told})
    else:
        print_campaign(campaign, verified)


def _show_artifact(session: Session, prefix: str, as_json: bool) -> None:
    from cli.console.output import print_json
    from cli.sheets.artifact import print_artifact
    from knowledge.queries.artifacts import artifact_detail

    artifact = artifact_detail(session, prefix)
    print_json(artifact) if as_json else print_artifact(artifact)
