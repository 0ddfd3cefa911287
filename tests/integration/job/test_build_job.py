"""A job that builds a checkpoint and measures nothing, and when a baseline tells that it times."""

import json
from pathlib import Path

from experiments.engines.port import DEVICE_BUSY, Infeasible
from experiments.job.device_guard import DeviceGuard
from experiments.job.spec import BuildJob, Knobs
from experiments.measurement.evidence import Stage
from tests.integration.job.running import Run, run
from tests.simulated.engine import SimulatedEngine
from tests.simulated.specs import CONTROL, FASTER, WORKLOAD, a_baseline_job, a_test_job

__all__ = ["run"]


class InUse(DeviceGuard):
    """Somebody else is on the device."""

    def before_launches(self) -> None:
        raise Infeasible(DEVICE_BUSY, "A notebook is on it.")


def a_build_job(**knobs: object) -> BuildJob:
    configuration: Knobs = {**CONTROL, **knobs}  # type: ignore[dict-item]
    return BuildJob(
        campaign_id=1,
        engine="simulated",
        model="simulated",
        model_fingerprint="simulated-fingerprint",
        device="cpu",
        seed=0,
        configuration=configuration,
        workload=WORKLOAD,
    )


def test_a_build_leaves_the_checkpoint_that_its_test_then_finds(run: Run) -> None:
    built = run(a_build_job(**{"simulated.layers": 3}))
    assert built.failure is None
    assert built.launches == ()
    assert [(each.stage, each.outcome) for each in built.stages] == [
        (Stage.STATIC, "done"),
        (Stage.PRUNE, "done"),
    ]
    tested = run(a_test_job(FASTER | {"simulated.layers": 3}))
    assert [each.outcome for each in tested.stages if each.stage is Stage.PRUNE] == ["reused"]
    assert tested.artifacts[0].digest == built.artifacts[0].digest


def test_nothing_is_built_for_what_the_engine_refuses(run: Run) -> None:
    refused = run(a_build_job(**{"simulated.layers": 3, "simulated.fails": "check"}))
    assert refused.failure is not None
    assert refused.failure.kind == "illegal"
    assert refused.artifacts == ()


def test_nothing_is_built_on_a_device_that_others_use(run: Run) -> None:
    result = run(a_build_job(**{"simulated.layers": 3}), guard=InUse("cpu"))
    assert result.failure is not None
    assert result.failure.kind == DEVICE_BUSY
    assert result.artifacts == ()


def test_a_baseline_tells_that_it_times_once_its_launches_are_up(run: Run, tmp_path: Path) -> None:
    loaded: list[int] = []

    class Counting(SimulatedEngine):
        def launch(self, *given, **named):  # type: ignore[no-untyped-def]
            launch = super().launch(*given, **named)
            lines = (tmp_path / "0" / "records.jsonl").read_text().splitlines()
            loaded.append(sum('"timing": true' in each or '"timing":true' in each for each in lines))
            return launch

    run(a_baseline_job(({"simulated.tpot_ms": 10.0}, {"simulated.tpot_ms": 8.0})), engine=Counting())
    lines = [json.loads(each) for each in (tmp_path / "0" / "records.jsonl").read_text().splitlines()]
    told = [(each["stage"], bool(each.get("timing"))) for each in lines if each["record"] == "progress"]
    assert loaded[:2] == [0, 0], "while they load nothing is timed"
    assert ("static", True) not in told
    assert told.index(("sweep", False)) < told.index(("sweep", True))
    assert told[-1][0] == "profile"
