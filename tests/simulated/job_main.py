"""The job's process with the simulated engine in it: `python -P -m tests.simulated.job_main`.

A spec whose engine is `checked` gets that one, and the real stage that quantizes.
"""

import sys
from pathlib import Path

from configs.library_threads import without_threads
from experiments.engines.garbage import unsearched
from experiments.executors.forking import serve


def main() -> int:
    with without_threads(), unsearched():
        from experiments.job.process import Workshop, run_in_folder
        from experiments.shapes.marker import is_shape
        from experiments.shapes.material import RandomMaterial
        from experiments.shapes.stages import ShapePruning, ShapeQuantization
        from tests.simulated.engine import SimulatedEngine
        from tests.simulated.material import SimulatedMaterial, SimulatedPruning

    def assemble(spec: object, cache_dir: Path) -> Workshop:
        if getattr(spec, "judge", "") == "launch-interval":
            from agent.judge.launch_interval import LaunchIntervalJudge as JudgeOfSpec
        else:
            from tests.simulated.judges import OnePairJudge as JudgeOfSpec  # type: ignore[assignment]
        if getattr(spec, "engine", "") == "checked":
            from experiments.stages.quantize.stage import WeightQuantization
            from tests.simulated.checked_engine import CheckedEngine

            checkpoint = Path(str(getattr(spec, "model", "")))
            stages = (WeightQuantization(),)
            return Workshop(CheckedEngine(), JudgeOfSpec(), checkpoint, SimulatedMaterial(), stages)
        shape = Path(str(getattr(spec, "model", "")))
        if is_shape(shape):
            material = RandomMaterial(shape, "cpu", 0)
            return Workshop(
                SimulatedEngine(), JudgeOfSpec(), shape, material, (ShapePruning(), ShapeQuantization())
            )
        return Workshop(
            SimulatedEngine(),
            JudgeOfSpec(),
            Path("simulated"),
            SimulatedMaterial(),
            (SimulatedPruning(),),
            {"simulated": "1"},
        )

    serve(lambda folder: run_in_folder(folder, assemble))
    return 0


if __name__ == "__main__":
    sys.exit(main())
