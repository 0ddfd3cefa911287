"""The real stages one after the other in one job, and drafting for what they leave: the seams between.

`make test` has one order of the stages and drafts in one way for what it leaves, `make bench` all of them.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from experiments.artifacts.store import ArtifactStore
from experiments.drafters.dflash.files import save_drafter
from experiments.drafters.dflash.network import DFlashNetwork
from experiments.drafters.dflash.shape import DFlashShape
from experiments.engines.port import GenerationRequest
from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.drafting.factory import decoder_for
from experiments.engines.reference.drafting.order import DraftingOrder
from experiments.engines.reference.engine import ReferenceEngine
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.reference.packed_layout import packed_modules
from experiments.job.checkpoints import prepare_checkpoint
from experiments.job.context import JobContext
from experiments.job.limits import StageLimits
from experiments.job.records import Records
from experiments.job.running_job import RunningJob
from experiments.measurement.evidence import Stage
from experiments.space.configuration import Configuration, KnobValue
from experiments.stages.pruning.layer_removal import KEPT_LAYERS
from experiments.stages.pruning.stage import DepthPruning
from experiments.stages.quantize.stage import WeightQuantization
from tests.integration.engines.checkpoints import LAYERS, VOCABULARY
from tests.integration.engines.drafted import write_target
from tests.integration.engines.test_reference_decode import prompt
from tests.integration.stages.quantizable import CPU, quantizable_model
from tests.simulated.material import SimulatedMaterial
from tests.simulated.specs import a_test_job
from tests.unit.measurement.tiny_tokenizer import tiny_tokenizer

pytestmark = pytest.mark.slow

BEFORE, AFTER = "before_quantization", "after_quantization"
ORDERS = (pytest.param(BEFORE, marks=pytest.mark.bench_only), AFTER)

HIDDEN = 64
SPREAD = 0.06
"""Of the target's weights: its text repeats a token for a while, then goes on to another."""

LAYERS_REMOVED = 1
NEW_TOKENS = 24


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint whose MTP head mostly drafts the last token again, which its text often does."""
    folder = write_target(
        tmp_path_factory.mktemp("target"), quantizable_model(vocabulary=VOCABULARY, spread=SPREAD)
    )
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in tensors.items():
        if name.startswith("mtp.layers.") and tensor.ndim == 2:
            tensors[name] = tensor * 0.1
    tensors["mtp.fc.weight"] = torch.cat([torch.eye(HIDDEN), 0.1 * torch.eye(HIDDEN)], dim=1)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def drafter(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In the form of the packaged drafter, for the layers of the target before any is taken out.

    Each place of its block sees, beside a little of the target's states, the last known token without what
    it has of the mask: it mostly drafts that token again.
    """
    torch.manual_seed(3)
    shape = DFlashShape(
        vocabulary=VOCABULARY,
        hidden=HIDDEN,
        intermediate=64,
        layers=1,
        query_heads=2,
        kv_heads=2,
        head_size=HIDDEN // 2,
        block_tokens=4,
        mask_token_id=VOCABULARY - 1,
        target_layer_ids=tuple(range(len(LAYERS))),  # whichever goes, one that is read is gone
        target_layers=len(LAYERS),
        rope_theta=10_000.0,
        max_positions=4096,
    )
    network = DFlashNetwork(shape).requires_grad_(False)
    mask = load_file(target / "model.safetensors")["model.embed_tokens.weight"][VOCABULARY - 1]
    attention = network.layers[0].self_attn
    attention.v_proj.weight.copy_(torch.eye(HIDDEN) - torch.outer(mask, mask) / mask.dot(mask))
    attention.o_proj.weight.copy_(100 * torch.eye(HIDDEN))
    network.hidden_norm.weight.mul_(0.01)
    folder = tmp_path_factory.mktemp("drafter")
    save_drafter(network, folder)
    return folder


@pytest.fixture(scope="module")
def job(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningJob]:
    folder = tmp_path_factory.mktemp("job")
    with ArtifactStore(folder / "artifacts") as store, Records(folder / "records.jsonl") as records:
        stages = (DepthPruning(), WeightQuantization())
        place = JobContext(folder, target, store, folder, 2, SimulatedMaterial(), stages)
        yield RunningJob(a_test_job(), place, ReferenceEngine(), records, StageLimits({}, None))


def knobs(order: str, **drafting: KnobValue) -> Configuration:
    return Configuration.of(
        {
            "pruning.method": "depth",
            "pruning.layers_removed": LAYERS_REMOVED,
            "pruning.criterion": "block_influence",
            "pruning.ranked_on": "quantized",
            "pruning.order": order,
            "quantization.method": "awq",
            "quantization.bits": 4,
            "quantization.group_size": 32,
            "quantization.corpus": "self",
            "quantization.samples": 4,
            "quantization.sample_tokens": 64,
            "serving.threads": 1,
            **{f"drafting.{name}": value for name, value in drafting.items()},
        }
    )


@pytest.fixture(scope="module", params=ORDERS)
def made(job: RunningJob, request: pytest.FixtureRequest) -> tuple[str, Path]:
    """The order of the stages, and the checkpoint that they left."""
    return request.param, prepare_checkpoint(job, knobs(request.param))[0]


def test_both_stages_leave_a_model_that_each_of_them_changed(
    made: tuple[str, Path], job: RunningJob, target: Path
) -> None:
    _, folder = made
    before, files = inspect_checkpoint(target), inspect_checkpoint(folder)
    kept = files.text_config[KEPT_LAYERS]
    assert len(kept) == len(LAYERS) - LAYERS_REMOVED
    assert [LAYERS[layer] for layer in kept] == list(files.layer_types)
    packed = packed_modules(files)
    assert {int(name.split(".")[2]) for name in packed} == set(range(len(kept)))
    assert {module.bits for module in packed.values()} == {4}
    heads = [{name for name in each.tensors if name.startswith("mtp.")} for each in (before, files)]
    assert heads[0] == heads[1]

    stages = [each for each in job.records.fold.result().stages if each.outcome == "done"]
    written = [each.detail["report"] for each in stages if each.stage is Stage.QUANTIZE]
    assert all("text of the model itself" in json.dumps(report) for report in written)
    assert {each.stage for each in stages} == {Stage.PRUNE, Stage.QUANTIZE}


@pytest.mark.parametrize(
    ("made", "method"),
    [
        (AFTER, "dflash"),
        pytest.param(AFTER, "mtp", marks=pytest.mark.bench_only),
        pytest.param(BEFORE, "mtp", marks=pytest.mark.bench_only),
        pytest.param(BEFORE, "dflash", marks=pytest.mark.bench_only),
    ],
    indirect=["made"],
)
def test_drafting_for_what_the_stages_left_changes_no_token(
    made: tuple[str, Path], method: str, drafter: Path, job: RunningJob, tmp_path: Path
) -> None:
    order, folder = made
    own = {"drafter": str(drafter)} if method == "dflash" else {}
    configuration = knobs(order, method=method, draft_tokens=3, **own)
    assert prepare_checkpoint(job, configuration)[0] == folder, "a drafter makes no other checkpoint"

    requests = [GenerationRequest(f"code:{seed}", prompt(seed, 12), NEW_TOKENS) for seed in range(3)]
    launch = job.engine.launch(configuration, folder, "cpu", tmp_path / "log", tmp_path / "cache")
    try:
        checks = launch.check_drafting(requests)
        texts = [launch.generate(request).token_ids for request in requests]
    finally:
        launch.close()
    assert [check.divergences for check in checks] == [0] * len(requests)
    assert [check.positions for check in checks] == [NEW_TOKENS - 1] * len(requests)
    steps = [tokens for check in checks for tokens in check.step_tokens]
    assert min(steps) == 1, "drafts that fall"
    assert max(steps) > 1, "and drafts that stand"

    files = inspect_checkpoint(folder)
    model = load_model(files, torch.float32, CPU)
    plain, _ = decoder_for(model, files, "off", tmp_path, DraftingOrder())
    assert [plain.generate(request).token_ids for request in requests] == texts
