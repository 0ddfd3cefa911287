"""A block with what the GPU did meanwhile; one in which it throttled is run again.

The rule: a block in which the GPU throttled (`gpu_block.throttled`) is repeated after `COOLING_S` with the
same requests, at most `REPEATS_MAX` times. The first that was undisturbed counts, else the last one. What
is replaced gives no sample; what the GPU did in it is kept with the block. A power limit that holds the
clocks down once more after the pause, and nothing else that does, is how this GPU runs this load: no further
block of the launch is repeated for that alone. Where the engine keeps prefixes of prompts nothing is
repeated: it would have read these prompts already, and what it read before is no prefill.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from experiments.engines.port import GenerationTrace
from experiments.measurement.evidence import Json
from experiments.measurement.gpu_block import gpu_during, only_power_capped
from experiments.space.configuration import Configuration
from experiments.telemetry.watching import GpuWatch

REPEATS_MAX = 2
"""How often a block is repeated at most: a GPU that is throttled three times in half a minute is not cooled
well enough, and more blocks would only say so again."""

COOLING_S = 10.0
"""Seconds before a repetition, for heat to go."""


PREFIX_CACHING, ON = "serving.prefix_caching", "on"


def may_repeat(configuration: Configuration) -> bool:
    """Whether the same prompts take the same work a second time."""
    return configuration.get(PREFIX_CACHING) != ON


class WatchedBlocks:
    """The blocks of one launch; knows of those before whether the power limit is how the GPU runs them."""

    def __init__(self, configuration: Configuration) -> None:
        self._runs_power_capped = False
        self._repeats = REPEATS_MAX if may_repeat(configuration) else 0

    def run(
        self,
        serve: Callable[[], list[GenerationTrace]],
        watch: Callable[[], GpuWatch],
        wait: Callable[[float], None],
    ) -> tuple[list[GenerationTrace], dict[str, Json]]:
        """What `serve` gave, and what the GPU did; `repeated` are the blocks in whose place it stands."""
        repeated: list[Json] = []
        capped_before = False
        while True:
            with watch() as watching:
                traces = serve()
            told = gpu_during(watching.readings, _output_tokens(traces))
            capped = only_power_capped(watching.readings)
            self._runs_power_capped |= capped and capped_before
            ends = len(repeated) == self._repeats or (capped and self._runs_power_capped)
            if told["throttled"] is None or ends:
                return traces, {**told, "repeated": repeated}
            repeated.append(told)
            capped_before = capped
            wait(COOLING_S)


def throttling_told(gpu: Json) -> str | None:
    """What to say of a block's throttling, by what the GPU did in it; None where there was none, or where it
    was not repeated, for blocks before had the same."""
    if not isinstance(gpu, dict):
        return None
    repeated = gpu.get("repeated")
    times = len(repeated) if isinstance(repeated, list) else 0
    if gpu.get("throttled") is not None and times:
        return f"the GPU throttled ({gpu['throttled']}) in each of {times + 1} attempts; the last one counts"
    if not times or not isinstance(repeated, list):
        return None
    causes = {str(each["throttled"]) for each in repeated if isinstance(each, dict)}
    return (
        f"repeated {'once' if times == 1 else 'twice'}, for the GPU throttled ({'; '.join(sorted(causes))})"
    )


def _output_tokens(traces: Sequence[GenerationTrace]) -> int:
    return sum(len(each.token_ids) for each in traces)
