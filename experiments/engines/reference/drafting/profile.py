"""Where the time of a decode step with drafting goes: drafting, verification, the copy to the host, the rest.

Where an MTP head runs within the step the two can't be told apart from outside. So a step without the head is
built too, and both run in turn on the same tokens: `verify` is the one without, `draft` what the other takes
more. Other drafters are timed by themselves. `rest` is what is left of the whole: the choice of the state and
Python. Medians over steps, in ms.
"""

from __future__ import annotations

import time
from statistics import median

import torch

from experiments.engines.port import GenerationRequest, Infeasible, PartTime
from experiments.engines.reference.compile import BuiltStep, build_step
from experiments.engines.reference.decode import Sequence
from experiments.engines.reference.drafting.speculation import Speculation
from experiments.engines.reference.profile import RUNS, fit_to_total, weight_bytes
from experiments.engines.reference.step import DecodeStep


def profile_speculation(speculation: Speculation, request: GenerationRequest) -> list[PartTime]:
    """Profile steps with drafting; the parts sum to the step."""
    decoder, count = speculation.decoder, speculation.order.draft_tokens + 1
    speculation.prepare(len(request.prompt_ids) + request.new_tokens)
    whole = decoder.step(count)
    verify_only = whole
    if whole.module.head is not None:
        bare = DecodeStep(decoder.model, whole.module.capacity, count)
        verify_only = build_step(bare, decoder.mode, decoder.cache_dir)
    seconds: dict[str, list[float]] = {"draft": [], "verify": [], "sampling": [], "step": [], "total": []}
    with torch.inference_mode():
        for _ in range(RUNS):
            _profile_run(speculation, request, verify_only, seconds)
    if not seconds["total"]:
        raise Infeasible(
            "illegal", f"No token of {request.item} was drafted, so there is no step to profile."
        )
    ms = {part: 1e3 * median(values) for part, values in seconds.items()}
    within_ms = max(0.0, ms["step"] - ms["verify"]) if verify_only is not whole else 0.0
    verify_ms = ms["step"] - within_ms
    parts_ms = fit_to_total(
        {"draft": ms["draft"] + within_ms, "verify": verify_ms, "sampling": ms["sampling"]}, ms["total"]
    )
    read = {
        "draft": speculation.drafter.step_weight_bytes(),
        "verify": sum(weight_bytes(decoder.model, count).values()),
    }
    return [PartTime(part, part, time_ms, read.get(part, 0)) for part, time_ms in parts_ms.items()]


def _profile_run(
    speculation: Speculation,
    request: GenerationRequest,
    verify_only: BuiltStep,
    seconds: dict[str, list[float]],
) -> None:
    """One generation with clock readings around its parts; the step without the head runs beside."""
    decoder, drafter = speculation.decoder, speculation.drafter
    prefilled = decoder.begin(request.prompt_ids)
    sequence = prefilled.sequence
    last = int(prefilled.logits.argmax())
    drafter.begin(request.prompt_ids, last, prefilled)
    made = 1
    while made < request.new_tokens:
        started_s = time.perf_counter()
        drafts = drafter.propose()
        proposed_s = time.perf_counter()
        tokens = speculation.filled(last, drafts)
        stepping_s = time.perf_counter()
        outputs = sequence.run(tokens)
        stepped_s = time.perf_counter()
        reading = sequence.reading(outputs)
        sampled_s = time.perf_counter()
        outcome = speculation.keep(sequence, reading)
        kept_s = time.perf_counter()
        drafter.advance(outcome)
        ended_s = time.perf_counter()
        made += len(outcome.tokens)
        last = outcome.tokens[-1]
        if len(tokens) == 1:
            continue  # nothing was drafted: a step of another kind
        seconds["draft"].append(proposed_s - started_s + ended_s - kept_s)
        seconds["step"].append(stepped_s - stepping_s)
        seconds["sampling"].append(sampled_s - stepped_s)
        seconds["total"].append(ended_s - started_s)
        seconds["verify"].append(_verify_alone_s(speculation, sequence, verify_only, tokens))


def _verify_alone_s(
    speculation: Speculation, sequence: Sequence, verify_only: BuiltStep, tokens: list[int]
) -> float:
    """Seconds of the step without the head, on the state as it stands; what it writes is written again."""
    device = speculation.decoder.model.device
    started_s = time.perf_counter()
    verify_only(
        torch.tensor([tokens], device=device),
        torch.tensor(sequence.state.position, device=device),
        *sequence.state.inputs(),
    )
    return time.perf_counter() - started_s
