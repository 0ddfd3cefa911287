"""A product is timed with as many copies as the device's memory bears, or told as untimed; nothing crashes.

Layers are plain ones of torch in place of vLLM's; what is free is made up, as no GPU is here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from experiments.engines.kernel_timings import Product
from experiments.engines.vllm import product_times
from experiments.engines.vllm.kernel_timing_process import Timer

SIZE = 128
WEIGHT_BYTES = 4 * SIZE * SIZE
PRODUCT = Product("o_proj", "model.layers.0.self_attn.o_proj", SIZE, SIZE, 8)


class Layer(torch.nn.Linear):
    """A layer with a method, as vLLM's have."""

    quant_method = object()


class Layers:
    """Makes layers, and counts them."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self.made = 0

    @contextmanager
    def under(self, backend: str) -> Iterator[None]:
        yield

    def layer(self, product: Product, quantization: object) -> torch.nn.Module:
        self.made += 1
        return Layer(product.inputs, product.outputs, bias=False)

    def inputs(self, rows: int, product: Product) -> torch.Tensor:
        return torch.ones(rows, product.inputs)


@pytest.fixture
def timer(tmp_path: Path) -> Timer:
    """A timer whose last cache holds four of the product's weights."""
    found = Timer.__new__(Timer)
    found._times, found._rows = product_times, 1
    found._layers = Layers()  # type: ignore[assignment]
    found._cache, found._turn_path = 4 * WEIGHT_BYTES, tmp_path / "turn"
    return found


@pytest.mark.parametrize(("free", "copies"), [(None, 16), (100, 16), (12, 11)])
def test_copies_are_as_many_as_fit(
    timer: Timer, monkeypatch: pytest.MonkeyPatch, free: int | None, copies: int
) -> None:
    told = None if free is None else free * WEIGHT_BYTES
    monkeypatch.setattr(product_times, "free_bytes", lambda device: told)
    part, broken = timer.time("auto", None, PRODUCT)
    assert (part.copies, part.weight_bytes, broken) == (copies, WEIGHT_BYTES, False)
    assert part.us is not None
    assert timer._layers.made == copies  # type: ignore[attr-defined]


def test_a_first_call_alone_makes_one_layer_and_times_nothing_else(timer: Timer) -> None:
    part, broken = timer.time("auto", None, PRODUCT, first_call_alone=True)
    assert (part.us, part.samples_us, part.refused, part.untimed, broken) == (None, (), None, None, False)
    assert part.first_call_s > 0
    assert timer._layers.made == 1  # type: ignore[attr-defined]


def test_where_too_few_fit_it_is_told_and_the_process_goes_on(
    timer: Timer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(product_times, "free_bytes", lambda device: WEIGHT_BYTES)
    part, broken = timer.time("auto", None, PRODUCT)
    assert (part.us, part.refused, part.left, broken) == (None, None, False, False)
    assert "not enough memory to time it" in str(part.untimed)
    assert "8 copies are needed" in str(part.untimed)
    monkeypatch.setattr(product_times, "free_bytes", lambda device: None)
    assert timer.time("auto", None, PRODUCT)[0].us is not None
