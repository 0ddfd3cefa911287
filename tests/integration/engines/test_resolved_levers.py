"""What the reference engine says it runs, lever by lever: no lever of its own confounds a test of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from agent.judge.confounding import differences
from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.drafting.factory import decoder_for
from experiments.engines.reference.drafting.order import drafting_order
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.reference.resolved import resolved_configuration
from experiments.engines.reference.stored_weights import stored_weights
from experiments.measurement.evidence import Arm, Json, LaunchRecord, Stage
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space
from experiments.stages.pruning.layer_removal import remove_layers
from tests.integration.engines.checkpoints import LAYERS, tiny_model, write_checkpoint
from tests.integration.engines.drafted import write_block_drafter, write_target
from tests.integration.engines.packed_checkpoints import by_hand, compressed_tensors_config, pack_quantized

SPACE = load_space("levers")

Claim = tuple[Configuration, Configuration]


@dataclass(frozen=True)
class Arms:
    """Tiny checkpoints, and what an engine in this process resolves for a configuration of one of them."""

    folder: Path
    told: dict[str, dict[str, Json]] = field(default_factory=dict)

    def resolved(self, configuration: Configuration, checkpoint: str) -> dict[str, Json]:
        key = json.dumps([dict(configuration), checkpoint], sort_keys=True)
        if key not in self.told:
            files = inspect_checkpoint(self.folder / checkpoint)
            dtype = str(configuration["serving.dtype"])
            order = drafting_order(configuration)
            model = load_model(files, getattr(torch, dtype), torch.device("cpu"))
            decoder, speculation = decoder_for(model, files, "off", self.folder / "cache", order)
            found = resolved_configuration(decoder, speculation) | {
                "weights": dict(stored_weights(files, dtype)),
                "threads": configuration["serving.threads"],
            }
            self.told[key] = json.loads(json.dumps(found))
        return self.told[key]

    def unexplained(
        self, control: Configuration, candidate: Configuration, one: str, other: str, claim: Claim
    ) -> list[str]:
        """The keys at which what ran in two arms differs beyond the change that is claimed."""
        ran = ((Arm.CONTROL, control, one), (Arm.CANDIDATE, candidate, other))
        records = [
            LaunchRecord(arm, 0, Stage.FULL, arm.value, self.resolved(configuration, where), {}, 1.0, ())
            for arm, configuration, where in ran
        ]
        pinned = SPACE.pinned_keys(*claim)
        found = differences(records[:1], records[1:], claim[0].changes_to(claim[1]), pinned)
        return [each.key for each in found]


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> Arms:
    folder = tmp_path_factory.mktemp("levers")
    write_target(folder / "whole", tiny_model(layers=LAYERS))
    for group, bits, symmetric in ((16, 4, True), (8, 4, True), (16, 8, True), (16, 4, False)):
        name = f"w{bits}-g{group}" + ("" if symmetric else "-asymmetric")
        write_target(folder / name, tiny_model(layers=LAYERS))
        told = compressed_tensors_config(bits, symmetric, group)
        by_hand(folder / name, pack_quantized, told, bits=bits, symmetric=symmetric, group=group)
    for source, layers, name in (
        ("whole", (2,), "fewer"),
        ("whole", (0, 2), "fewest"),
        ("w4-g16", (2,), "w4-fewer"),
    ):
        remove_layers(inspect_checkpoint(folder / source), layers, folder / name)
    write_block_drafter(folder / "drafter")
    write_checkpoint(folder / "small", tiny_model(seed=4, layers=LAYERS[:2]))
    return Arms(folder)


def of(arms: Arms, **knobs: KnobValue) -> Configuration:
    """The default of the space with some knobs, written with `__` for the dot."""
    given = {name.replace("__", "."): value for name, value in knobs.items()}
    if given.get("drafting.drafter"):
        given["drafting.drafter"] = str(arms.folder / str(given["drafting.drafter"]))
    return SPACE.with_change(SPACE.configuration({}), given) if given else SPACE.configuration({})


AWQ: dict[str, KnobValue] = {"quantization__method": "awq", "quantization__bits": 4}
MTP: dict[str, KnobValue] = {"drafting__method": "mtp", "drafting__draft_tokens": 1}
DEPTH: dict[str, KnobValue] = {"pruning__method": "depth", "pruning__layers_removed": 1}
DFLASH: dict[str, KnobValue] = {"drafting__method": "dflash", "drafting__drafter": "drafter"}

PAIRS: dict[str, tuple[dict[str, KnobValue], dict[str, KnobValue], str, str]] = {
    "dtype": ({}, {"serving__dtype": "bfloat16"}, "whole", "whole"),
    "dtype beside a drafter": (DFLASH, DFLASH | {"serving__dtype": "bfloat16"}, "whole", "whole"),
    "threads": ({}, {"serving__threads": 1}, "whole", "whole"),
    "fewer layers": ({}, DEPTH, "whole", "fewer"),
    "one more layer": (DEPTH, DEPTH | {"pruning__layers_removed": 2}, "fewer", "fewest"),
    "another criterion": (DEPTH, DEPTH | {"pruning__criterion": "greedy_kl"}, "fewer", "whole"),
    "other layers": (DEPTH, DEPTH | {"pruning__restrict": "attention"}, "fewer", "fewest"),
    "fewer layers beside a head": (MTP, MTP | DEPTH, "whole", "fewer"),
    "quantization": ({}, AWQ, "whole", "w4-g16"),
    "no quantization": (AWQ, {}, "w4-g16", "whole"),
    "another method": ({"quantization__method": "rtn"}, AWQ, "w4-g16", "w4-g16"),
    "bits": (AWQ, AWQ | {"quantization__bits": 8}, "w4-g16", "w8-g16"),
    "groups": (AWQ, AWQ | {"quantization__group_size": 128}, "w4-g16", "w4-g8"),
    "zero points": (AWQ, AWQ | {"quantization__symmetric": False}, "w4-g16", "w4-g16-asymmetric"),
    "corpus": (AWQ, AWQ | {"quantization__corpus": "instruct"}, "w4-g16", "w4-g16"),
    "fewer layers of quantized ones": (AWQ, AWQ | DEPTH, "w4-g16", "w4-fewer"),
    "quantization and pruning at once": ({}, AWQ | DEPTH, "whole", "w4-fewer"),
    "head": ({}, MTP, "whole", "whole"),
    "no head": (MTP, {}, "whole", "whole"),
    "head, two tokens": (MTP, MTP | {"drafting__draft_tokens": 2}, "whole", "whole"),
    "head to n-grams": (MTP, {"drafting__method": "ngram"}, "whole", "whole"),
    "longer n-grams": (
        {"drafting__method": "ngram"},
        {"drafting__method": "ngram", "drafting__ngram_tokens": 3},
        "whole",
        "whole",
    ),
    "block drafter": ({}, DFLASH, "whole", "whole"),
    "block drafter that pruning pays for": (MTP, DFLASH | DEPTH, "whole", "fewer"),
    "draft model": ({}, {"drafting__method": "draft_model", "drafting__drafter": "small"}, "whole", "whole"),
    "another draft model": (
        {"drafting__method": "draft_model", "drafting__drafter": "small"},
        {"drafting__method": "draft_model", "drafting__drafter": "fewest"},
        "whole",
        "whole",
    ),
}
"""Pairs of arms as campaigns have them: knobs of control and candidate, and the checkpoint of each."""


def configurations(arms: Arms, name: str) -> Claim:
    return of(arms, **PAIRS[name][0]), of(arms, **PAIRS[name][1])


@pytest.mark.parametrize("name", PAIRS)
def test_a_lever_of_the_engine_confounds_no_test_of_itself(arms: Arms, name: str) -> None:
    ran = configurations(arms, name)
    assert arms.unexplained(*ran, *PAIRS[name][2:], ran) == []


@pytest.mark.parametrize(
    ("name", "key", "claim"),
    [
        ("dtype", "dtype", "groups"),
        ("bits", "weights.stored", "corpus"),
        ("fewer layers", "layers", "head, two tokens"),
        ("head", "drafting.method", "fewer layers"),
        ("block drafter", "drafting.drafter.parameters", "fewer layers"),
        ("quantization", "weights.stored", "head"),
    ],
)
def test_a_lever_that_nobody_claimed_is_found_behind_the_claim_of_another(
    arms: Arms, name: str, key: str, claim: str
) -> None:
    ran = configurations(arms, name)
    assert key in arms.unexplained(*ran, *PAIRS[name][2:], configurations(arms, claim))
