"""What a version is said to fail at on a processor it fails at, and one of which nothing is said does not.

Skipped where no vLLM for CPUs is named (see `test_vllm_engine.py`).
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from experiments.corpora.standard_library import held_out_documents
from experiments.engines.port import Infeasible
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.environment import needed_environment
from experiments.engines.vllm.on_device import FAILS_FOR_HYBRIDS
from experiments.measurement.plan import Workload
from experiments.measurement.prompts import PromptSource, load_tokenizer
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration, KnobValue
from tests.integration.engines.test_vllm_engine import KNOBS, why_not

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "there is one"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

HANGS_S = 90.0
"""After how long a request of 24 tokens is taken to hang: it lasts seconds on two busy cores."""


def fails_at(knobs: dict[str, KnobValue], folder: Path) -> str | None:
    """How a launch that is not checked beforehand fails at a request of the packaged hybrid, or what of the
    knobs it does not run; None where it answers with what was asked for."""
    source = PromptSource(load_tokenizer(reference_model_path()), held_out_documents())
    (request,) = source.block(Workload(prompt_tokens=40, new_tokens=24, prompts_per_block=1), 0, 0, 0)
    configuration = Configuration.of({**KNOBS, **knobs})
    try:
        opened = VllmEngine(request_limit_s=HANGS_S).launch(
            configuration, reference_model_path(), "cpu", folder / "log", folder / "cache"
        )
        with closing(opened) as launch:
            assert len(launch.generate(request).token_ids) == 24
            told = launch.resolved()
    except Infeasible as failed:
        return failed.cause
    assert isinstance(told["drafting"], dict)
    runs = {
        "drafting.method": told["drafting"]["method"],
        "serving.dtype": told["dtype"],
        "serving.gdn_state_dtype": told["gdn_state_dtype"],
    }
    other = {knob: ran for knob, ran in runs.items() if knobs.get(knob, ran) != ran}
    return f"ran {other}" if other else None


@pytest.mark.parametrize(("knob", "value"), FAILS_FOR_HYBRIDS)
def test_what_a_version_is_said_to_fail_at_and_nothing_else_fails_when_it_is_asked_all_the_same(
    knob: str, value: KnobValue, tmp_path: Path
) -> None:
    here = needed_environment("cpu")
    beside: dict[str, KnobValue] = {"drafting.draft_tokens": 1} if knob == "drafting.method" else {}
    failed = fails_at({knob: value, **beside}, tmp_path)
    print(f"vLLM {here.version}, {knob}={value}: {failed or 'answers'}")
    assert (failed is not None) == (here.number in FAILS_FOR_HYBRIDS[knob, value]), failed
