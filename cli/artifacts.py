"""`autoinfer artifacts`: list, size, put, prune."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import DEFAULT_LIMIT, Json, Limit, Offset

if TYPE_CHECKING:
    from datetime import datetime

    from db.event_kinds import EventKind
    from db.models.base import JsonObject
    from experiments.artifacts.store import ArtifactStore
    from experiments.artifacts.stored import StoredArtifact

app = typer.Typer(
    rich_markup_mode=None, add_completion=False, help="List, measure, share or prune what lies on the disk."
)

SHOWN_DIGITS = 12
"""Hexadecimal digits of a digest in a list: enough to name it, and to show it with `A-…`."""


@app.command("list")
def list_(
    ctx: typer.Context, limit: Limit = DEFAULT_LIMIT, offset: Offset = 0, as_json: Json = False
) -> None:
    """The artifacts on this disk, least recently used first."""
    from cli.console.output import console, pager_line, print_json, say, table, when
    from configs.quantities import format_duration
    from knowledge.figures import size as bytes_words

    with _store(ctx) as store:
        found = store.list()
    shown = found[offset : offset + limit]
    if as_json:
        items = [_as_json(each) for each in shown]
        print_json({"items": items, "total": len(found), "limit": limit, "offset": offset})
        return
    if not found:
        say(f"There is no artifact in {store.root}.")
        return
    rows = [
        (
            f"A-{each.digest[:SHOWN_DIGITS]}",
            each.kind,
            bytes_words(each.bytes),
            format_duration(each.build_s),
            when(each.last_used_at),
            each.damage or "whole",
        )
        for each in shown
    ]
    console().print(
        table(("digest", "kind", ">size", ">built in", "last used", "state"), rows, wide=("state",))
    )
    if rest := pager_line(len(shown), len(found), offset, "artifacts"):
        say("", rest)


@app.command()
def size(ctx: typer.Context, as_json: Json = False) -> None:
    """How much the artifacts take, by kind."""
    from cli.console.output import console, print_json, say, table
    from knowledge.figures import size as bytes_words

    with _store(ctx) as store:
        found = store.list()
    kinds: dict[str, tuple[int, int]] = {}
    for each in found:
        count, total = kinds.get(each.kind, (0, 0))
        kinds[each.kind] = (count + 1, total + each.bytes)
    everything = sum(each.bytes for each in found)
    if as_json:
        by_kind = {kind: {"count": count, "bytes": total} for kind, (count, total) in sorted(kinds.items())}
        print_json({"root": str(store.root), "count": len(found), "bytes": everything, "kinds": by_kind})
        return
    rows = [(kind, str(count), bytes_words(total)) for kind, (count, total) in sorted(kinds.items())]
    if rows:
        console().print(table(("kind", ">count", ">size"), rows))
    say(f"{bytes_words(everything)} in {store.root}")


@app.command()
def put(
    ctx: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A checkpoint: config.json, *.safetensors, tokenizer.")
    ],
    as_json: Json = False,
) -> None:
    """Put a checkpoint into the store that hosts share (AUTOINFER_ARTIFACTS), for machines that see no folder
    of this one.

    Files that the store has are not sent again. Nothing is deleted there.
    """
    from cli.console.opening import settings_of
    from cli.console.output import print_json, say
    from configs.errors import UsageError
    from experiments.artifacts.originals import put_original
    from experiments.artifacts.shared import SharedArtifacts
    from experiments.reference_model.load import checkpoint_fingerprint
    from knowledge.figures import size as bytes_words

    url = settings_of(ctx).artifacts
    if url is None:
        raise UsageError(
            "There is no store that hosts share.",
            "Name one, a folder that all of them see or a bucket: AUTOINFER_ARTIFACTS=s3://bucket/prefix",
        )
    shared, checkpoint = SharedArtifacts(url), folder.expanduser().absolute()
    told = (lambda name, size: None) if as_json else (lambda name, size: say(f"{name}, {bytes_words(size)}"))
    sent = put_original(shared, checkpoint, told)
    fingerprint = sent or checkpoint_fingerprint(checkpoint)
    if as_json:
        print_json({"store": url, "folder": str(checkpoint), "fingerprint": fingerprint, "sent": bool(sent)})
    elif sent:
        say(f"{checkpoint} is in {url}.")
    else:
        say(f"{checkpoint} was in {url} already.")


@app.command()
def prune(
    ctx: typer.Context,
    unused_for: Annotated[
        str,
        typer.Option(
            "--unused-for", metavar="AGE", help="Delete what was not used for this long, such as 7d."
        ),
    ],
    jobs: Annotated[
        bool, typer.Option("--jobs", help="Delete the folders of jobs that ended so long ago, too.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: Json = False,
) -> None:
    """Delete artifacts that were not used for a while, and what crashed builds left behind.

    What an experiment uses now stays. Results stay in the database; an artifact is built again when it is
    needed. With --jobs the folders of ended jobs go too, with the logs in them; samples are in the database.
    """
    from datetime import UTC, datetime, timedelta

    from cli.console.opening import settings_of
    from cli.console.output import print_json, say
    from configs.quantities import parse_duration_s
    from db.event_kinds import EventKind
    from knowledge.figures import counted
    from knowledge.figures import size as bytes_words

    before = datetime.now(UTC) - timedelta(seconds=parse_duration_s(unused_for))
    keys, jobs_bytes = _prune_jobs(ctx, before, dry_run=dry_run) if jobs else ([], 0)
    with _store(ctx) as store:
        if dry_run:
            old = [each for each in store.list() if each.last_used_at < before]
            digests, freed, in_use, swept = (
                [each.digest for each in old],
                sum(each.bytes for each in old),
                [],
                0,
            )
        else:
            done = store.prune(before)
            digests, freed, in_use, swept = list(done.digests), done.bytes, list(done.in_use), store.sweep()
    if not dry_run:
        url = settings_of(ctx).database_url
        if digests:
            said = f"{counted(len(digests), 'artifact')} deleted, {bytes_words(freed)} set free."
            _tell(url, EventKind.ARTIFACT_PRUNED, said, {"digests": digests, "freed_bytes": freed})
        if keys:
            said = (
                f"{counted(len(keys), 'folder')} of ended jobs deleted, {bytes_words(jobs_bytes)} set free."
            )
            _tell(url, EventKind.JOB_PRUNED, said, {"jobs": keys, "freed_bytes": jobs_bytes})
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "deleted": digests,
                "freed_bytes": freed,
                "in_use": in_use,
                "swept_builds": swept,
                "jobs": keys,
                "jobs_freed_bytes": jobs_bytes,
            }
        )
        return
    would = "would be deleted" if dry_run else "deleted"
    say(f"{counted(len(digests), 'artifact')} {would}, {bytes_words(freed)}.")
    if jobs:
        say(f"{counted(len(keys), 'folder')} of ended jobs {would}, {bytes_words(jobs_bytes)}.")
    if in_use:
        say(f"{counted(len(in_use), 'artifact')} left, in use by an experiment.")
    if swept:
        say(f"{counted(swept, 'unfinished build')} cleared away.")


def _prune_jobs(ctx: typer.Context, before: datetime, *, dry_run: bool) -> tuple[list[str], int]:
    """Delete the folders of jobs that ended before that moment; returns their keys and bytes."""
    from cli.console.opening import database_of, settings_of
    from cli.executors.executor import JOBS_FOLDER, make_executor
    from experiments.worker.run_folders import delete_runs, finished_runs

    settings = settings_of(ctx)
    with database_of(ctx, reads_when_full=True) as database:
        alive = set(make_executor(settings, "local").reconcile())
        runs = finished_runs(database, settings.data_dir / JOBS_FOLDER, before, alive)
        freed = sum(run.bytes for run in runs) if dry_run else delete_runs(runs)
    return [run.key for run in runs], freed


def _store(ctx: typer.Context) -> ArtifactStore:
    from cli.console.opening import settings_of
    from experiments.artifacts.store import ArtifactStore

    return ArtifactStore(settings_of(ctx).artifacts_dir)


def _as_json(artifact: StoredArtifact) -> dict[str, object]:
    return {
        "digest": artifact.digest,
        "kind": artifact.kind,
        "inputs": dict(artifact.inputs),
        "parents": list(artifact.parents),
        "tool_versions": dict(artifact.tool_versions),
        "path": str(artifact.path),
        "bytes": artifact.bytes,
        "build_s": artifact.build_s,
        "created_at": artifact.created_at.isoformat(),
        "last_used_at": artifact.last_used_at.isoformat(),
        "damage": artifact.damage,
    }


def _tell(url: str, kind: EventKind, said: str, data: JsonObject) -> None:
    """Write a deletion into the log, where there is a database; what was deleted is gone either way."""
    from configs.errors import DatabaseError
    from db import events
    from db.session import open_database

    try:
        database = open_database(url)
    except DatabaseError:
        return
    try:
        with database.write() as session:
            events.append(session, kind, said, data=data)
    finally:
        database.close()
