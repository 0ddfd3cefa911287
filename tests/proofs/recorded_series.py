"""A/A series as the proof reads them: of a database, or of a file that was recorded from databases.

    python -m tests.proofs.recorded_series FILE DATABASE …

writes the file: JSON, a line a series (what was measured, on what, by which plan), each followed by a line a
pair with the metric's samples and what resolved. Of a launch's environment only the machine is kept, once a
series, and of its samples only the judged metric; the judge reads no more of launches on a CPU, and a test
holds that it says the same of both.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent.judge.aa_pairs import AaPair
from configs.errors import UsageError
from experiments.measurement.evidence import Arm, Json, LaunchRecord, Metric, Sample, Stage
from experiments.measurement.plan import StoppingPlan


@dataclass(frozen=True)
class Ground:
    """What a series was measured on and how it is judged. `begun` is its date in UTC; `machine` is that of
    its first launch; `condition` is `alone`, `beside` or None."""

    label: str
    begun: str
    engine: str
    model: str
    fingerprint: str
    target: str
    configuration: str
    judge: str
    blocks: int
    condition: str | None
    plan: dict[str, Any]
    machine: Json

    @property
    def stopping_plan(self) -> StoppingPlan:
        """The plan of its experiments."""
        return StoppingPlan.model_validate(self.plan)

    @property
    def host(self) -> str:
        """The machine in words: which cores it gave, of how many, and what ran on it."""
        machine: Any = self.machine
        try:
            cpu, packages = machine["cpu"], machine["packages"]
            cores = f"{cpu['cores']} of {cpu['machine_cores']} cores"
            return f"{cores}, Python {machine['python']}, torch {packages['torch']}"
        except (KeyError, TypeError):
            return "a machine of which nothing was written down"


@dataclass(frozen=True)
class StoredSeries:
    """A series and its measured pairs, in their order."""

    ground: Ground
    pairs: tuple[AaPair, ...]


def read(name: str) -> list[StoredSeries]:
    """All series of a recorded file (`.jsonl`), or the longest one of a database (an address or a file).

    Raises `UsageError` for a file that was not recorded by this module, `DatabaseMissing` for no database.
    """
    if name.endswith(".jsonl"):
        return list(_of_file(Path(name)))
    found = _of_database(name)
    return [] if found is None else [found]


def write(path: Path, found: Iterable[StoredSeries]) -> None:
    """Record series in a file."""
    with path.open("w", encoding="utf-8") as file:
        for each in found:
            resolved = _distinct(launch.resolved for pair in each.pairs for launch in pair.launches)
            head = {**asdict(each.ground), "resolved": [json.loads(text) for text in resolved]}
            print(json.dumps({"series": head}), file=file)
            metric = each.ground.stopping_plan.metric
            for pair in each.pairs:
                launches = [_launch_out(launch, metric, resolved) for launch in pair.launches]
                told = {"pair": pair.number, "at_s": pair.at_s, "differs": pair.differs, "launches": launches}
                print(json.dumps(told), file=file)


def _launch_out(launch: LaunchRecord, metric: Metric, resolved: Sequence[str]) -> dict[str, Json]:
    return {
        "arm": launch.arm.value,
        "index": launch.index,
        "load_s": launch.load_s,
        "resolved": resolved.index(_canonical(launch.resolved)),
        "samples": [[s.block, s.position, s.item, s.seq, s.value] for s in launch.of(metric)],
    }


def _of_file(path: Path) -> Iterator[StoredSeries]:
    ground, resolved, pairs = None, [], []
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            told = json.loads(line)
            if "series" in told:
                if ground is not None:
                    yield StoredSeries(ground, tuple(pairs))
                resolved, pairs = told["series"].pop("resolved"), []
                ground = Ground(**told["series"])
                continue
            assert ground is not None
            first, second = (_launch_in(each, ground, resolved) for each in told["launches"])
            pairs.append(AaPair(told["pair"], told["at_s"], first, second, told["differs"]))
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}.", "Name another file.") from None
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{path} is no recorded series: {error!r}.",
            "Record one with: python -m tests.proofs.recorded_series FILE DATABASE",
        ) from None
    if ground is not None:
        yield StoredSeries(ground, tuple(pairs))


def _launch_in(told: dict[str, Any], ground: Ground, resolved: Sequence[dict[str, Json]]) -> LaunchRecord:
    metric = ground.stopping_plan.metric
    return LaunchRecord(
        arm=Arm(told["arm"]),
        index=told["index"],
        stage=Stage.NOISE,
        configuration_digest=ground.configuration,
        resolved=resolved[told["resolved"]],
        environment={"machine": ground.machine},
        load_s=told["load_s"],
        samples=tuple(
            Sample(block, position, item, seq, metric, value)
            for block, position, item, seq, value in told["samples"]
        ),
    )


def _of_database(database: str) -> StoredSeries | None:
    from sqlalchemy import select

    from agent.noise.report import load_pairs, plan_of_campaign
    from agent.noise.series import read_series
    from db.models import Campaign
    from db.noise import SERIES_NAME
    from db.session import open_database

    address = database if "://" in database else f"sqlite:///{Path(database).resolve()}"
    opened = open_database(address)
    try:
        with opened.read() as session:
            ids = list(session.scalars(select(Campaign.id).where(Campaign.name == SERIES_NAME)))
            measured = {each: pairs for each in ids if (pairs := load_pairs(session, each))}
            if not measured:
                return None
            chosen = max(measured, key=lambda each: len(measured[each]))
            row, (spec, asked) = session.get_one(Campaign, chosen), read_series(session, chosen)
            first = measured[chosen][0].first
            ground = Ground(
                label=Path(database).stem,
                begun=f"{row.started_at or row.created_at:%Y-%m-%d %H:%M}",
                engine=spec.engine,
                model=spec.model,
                fingerprint=row.model_fingerprint,
                target=row.target,
                configuration=", ".join(f"{knob}={value}" for knob, value in asked.configuration.items()),
                judge=spec.judge,
                blocks=asked.blocks,
                condition="alone" if asked.alone else "beside" if asked.beside else None,
                plan=plan_of_campaign(spec).model_dump(mode="json"),
                machine=first.environment.get("machine"),
            )
            return StoredSeries(ground, tuple(measured[chosen]))
    finally:
        opened.close()


def _distinct(found: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(map(_canonical, found)))


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=dict)


def main(arguments: Sequence[str] | None = None) -> int:
    """Record the series of databases in a file; labels are the files' names."""
    path, *databases = sys.argv[1:] if arguments is None else arguments
    found = [each for database in databases for each in read(database)]
    write(Path(path), found)
    print(f"{path}: {len(found)} series, {sum(len(each.pairs) for each in found)} pairs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
