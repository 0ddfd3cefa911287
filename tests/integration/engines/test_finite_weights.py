"""Weights that hold what is no finite number are named before anything is loaded; nothing else is taken for
one."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from experiments.engines.port import Infeasible
from experiments.engines.reference import finite_weights
from experiments.engines.reference.finite_weights import check_finite
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.reference_model.load import reference_model_path
from tests.integration.engines.checkpoints import tiny_model, write_checkpoint
from tests.integration.engines.packed_checkpoints import (
    awq_gemm,
    by_hand,
    compressed_tensors_config,
    pack_quantized,
    write_gptq,
)

NAME = "model.layers.2.mlp.down_proj.weight"
LARGEST = {torch.float16: 65504.0, torch.bfloat16: 3.3895e38, torch.float32: 3.4e38, torch.float64: 1.7e308}


def with_values(folder: Path, name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Path:
    """The checkpoint with one tensor changed, in whichever of its files that is."""
    for path in folder.glob("*.safetensors"):
        tensors = load_file(path)
        if name in tensors:
            tensors[name] = change(tensors[name].clone())
            save_file(tensors, path, metadata={"format": "pt"})
            return path
    raise AssertionError(name)


def put(value: float, dtype: torch.dtype = torch.bfloat16, places: int = 1) -> Callable[..., torch.Tensor]:
    """The last `places` values of a tensor become this one, of the type."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        made = tensor.to(dtype)
        made.view(-1)[-places:] = value
        return made

    return change


@pytest.mark.parametrize("dtype", list(LARGEST))
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_the_tensor_its_file_and_how_many_values_are_named(
    tmp_path: Path, value: float, dtype: torch.dtype
) -> None:
    folder = write_checkpoint(tmp_path, tiny_model(), shards=3)
    damaged = with_values(folder, NAME, put(value, dtype, places=3))
    values = load_file(damaged)[NAME].numel()
    with pytest.raises(Infeasible) as told:
        check_finite(inspect_checkpoint(folder))
    assert told.value.kind == "checkpoint"
    assert told.value.cause.startswith(
        f"{NAME} in {damaged} holds 3 values of {values:,} that are NaN or infinite"
    )
    assert "fetch it again" in told.value.cause


@pytest.mark.parametrize("dtype", list(LARGEST))
def test_the_largest_and_smallest_values_of_a_type_are_numbers(tmp_path: Path, dtype: torch.dtype) -> None:
    folder = write_checkpoint(tmp_path, tiny_model())
    for value in (LARGEST[dtype], -LARGEST[dtype], 0.0, -0.0, torch.finfo(dtype).tiny / 2):
        with_values(folder, NAME, put(value, dtype))
        check_finite(inspect_checkpoint(folder))


DECAY = "model.layers.0.linear_attn.A_log"


@pytest.mark.parametrize("dtype", list(LARGEST))
def test_minus_infinity_is_a_decay_of_none_and_passes_there_alone(tmp_path: Path, dtype: torch.dtype) -> None:
    """The engine takes exp(A_log), which is 0 then."""
    folder = write_checkpoint(tmp_path, tiny_model())
    for places in (1, 0):  # one value, and all of them
        with_values(folder, DECAY, put(float("-inf"), dtype, places))
        check_finite(inspect_checkpoint(folder))
    for value in (float("nan"), -float("nan"), float("inf")):
        with_values(folder, DECAY, put(value, dtype))
        with pytest.raises(Infeasible, match=r"linear_attn\.A_log in .* holds 1 value of"):
            check_finite(inspect_checkpoint(folder))


@pytest.mark.parametrize("place", [0, 1000, -1], ids=["first", "within", "last"])
def test_a_value_is_found_wherever_it_lies_in_what_is_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    monkeypatch.setattr(finite_weights, "READ_BYTES", 64)
    folder = write_checkpoint(tmp_path, tiny_model())

    def change(tensor: torch.Tensor) -> torch.Tensor:
        tensor.view(-1)[place] = float("nan")
        return tensor

    with_values(folder, NAME, change)
    with pytest.raises(Infeasible, match="holds 1 value of"):
        check_finite(inspect_checkpoint(folder))


def test_whole_checkpoints_pass(tmp_path: Path) -> None:
    check_finite(inspect_checkpoint(write_checkpoint(tmp_path, tiny_model(), wrapper=True, shards=2)))
    check_finite(inspect_checkpoint(reference_model_path()))


@pytest.mark.parametrize(
    ("pack", "scale"), [(pack_quantized, "weight_scale"), (awq_gemm, "scales")], ids=["packed", "awq"]
)
@pytest.mark.parametrize("wrapper", [False, True])
def test_a_scale_of_a_packed_weight_that_is_no_number_is_named(
    tmp_path: Path, pack: Callable[..., dict[str, torch.Tensor]], scale: str, wrapper: bool
) -> None:
    folder = write_checkpoint(tmp_path, tiny_model(), wrapper=wrapper)
    by_hand(folder, pack, compressed_tensors_config())
    stored = load_file(folder / "model.safetensors")
    name = next(each for each in stored if each.endswith(f"layers.2.mlp.down_proj.{scale}"))
    with_values(folder, name, put(float("nan"), stored[name].dtype))
    with pytest.raises(Infeasible, match=rf"mlp\.down_proj\.{scale} in .* holds 1 value of"):
        check_finite(inspect_checkpoint(folder))


FLOATS_8 = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0, torch.float8_e8m0fnu: 2.0**127}


@pytest.mark.parametrize("dtype", list(FLOATS_8))
def test_eight_bit_floats_are_numbers_but_for_nan_and_the_infinities(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    folder = write_checkpoint(tmp_path, tiny_model())
    for largest in (FLOATS_8[dtype], -FLOATS_8[dtype]) if dtype.is_signed else (FLOATS_8[dtype],):
        with_values(folder, NAME, lambda each, value=largest: torch.full(each.shape, value).to(dtype))
        check_finite(inspect_checkpoint(folder))

    for none in ("nan", "inf") if dtype is torch.float8_e5m2 else ("nan",):

        def damage(tensor: torch.Tensor, none: str = none) -> torch.Tensor:
            made = torch.full(tensor.shape, 1.0)
            made.view(-1)[-1] = float(none)
            return made.to(dtype)

        with_values(folder, NAME, damage)
        with pytest.raises(Infeasible, match=r"down_proj\.weight in .* holds 1 value of"):
            check_finite(inspect_checkpoint(folder))


@pytest.mark.parametrize("pack", [pack_quantized, awq_gemm])
def test_packed_integers_are_numbers_whatever_their_bits(
    tmp_path: Path, pack: Callable[..., dict[str, torch.Tensor]]
) -> None:
    """Integers of any bits, those of a NaN among them."""
    folder = write_checkpoint(tmp_path, tiny_model())
    by_hand(folder, pack, compressed_tensors_config())
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for tensor in tensors.values():
        if tensor.dtype is torch.int32:
            tensor.fill_(0x7FC07FC0)
    save_file(tensors, path)
    check_finite(inspect_checkpoint(folder))
    with_values(folder, "model.norm.weight", put(float("nan")))
    with pytest.raises(Infeasible, match=r"model\.norm\.weight in .* holds 1 value of"):
        check_finite(inspect_checkpoint(folder))


def test_a_layout_that_is_not_read_here_and_scales_of_activations_pass(tmp_path: Path) -> None:
    check_finite(inspect_checkpoint(write_gptq(reference_model_path(), tmp_path / "gptq")))
    folder = write_checkpoint(tmp_path / "fp8", tiny_model())
    path = with_values(folder, NAME, lambda tensor: torch.full(tensor.shape, 448.0).to(torch.float8_e4m3fn))
    tensors = load_file(path)
    scale = NAME.replace(".weight", ".input_scale")
    save_file(tensors | {scale: torch.tensor([float("inf")])}, path)
    check_finite(inspect_checkpoint(folder))


def test_a_file_is_read_again_only_once_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_checkpoint(tmp_path, tiny_model())
    check_finite(inspect_checkpoint(folder))
    monkeypatch.setattr(finite_weights, "_count", None)  # nothing can be counted any more
    check_finite(inspect_checkpoint(folder))
    monkeypatch.undo()
    with_values(folder, NAME, put(float("nan"), torch.float32))
    with pytest.raises(Infeasible, match="NaN or infinite"):
        check_finite(inspect_checkpoint(folder))
