"""The process that times vLLM's linear kernels, in vLLM's own Python: requests on stdin, replies on stdout.

The first request says the device, the type of activations, rows of an input, a folder, and a file by which
several such processes take turns on the device; then each asks for one product by one value of
`--linear-backend` with weights of one format. Started by `kernel_timer.py`; ends with it.
What a kernel refuses, or what failed of it, is a part of an answer. After a failure that may have left the
device's context broken the answer says so, and nothing more should be asked.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.engines.kernel_timings import PartTiming, Product
from experiments.engines.messages import infeasible_data, send
from experiments.engines.parent import requests_from
from experiments.engines.port import Infeasible
from experiments.engines.vllm.product_copies import TooLittleMemory, copies_that_fit
from experiments.measurement.evidence import Json

if TYPE_CHECKING:
    from experiments.engines.vllm.timed_layers import TimedLayers

BROKEN, OK_PART = "broken", "part"
"""In an answer: whether the process is not to be asked again, and what came of the product."""

AGAIN = "again"
"""In a request: whether the product's first call alone is asked for, which another process made before."""

TURN = "turn"
"""In an order: the file that a process keeps locked while it is its turn on the device."""


class Timer:
    """Times products in this process."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        from experiments.engines.vllm import product_times
        from experiments.engines.vllm.timed_layers import TimedLayers

        self._times = product_times
        self._rows = int(order["rows"])
        self._layers: TimedLayers = TimedLayers(order["device"], order["dtype"], Path(order["folder"]))
        self._cache = product_times.cache_bytes(self._layers.device)
        self._turn_path = Path(order[TURN])
        with self._turn():
            product_times.warm_up(self._layers.device)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Alone on the device among the processes of one timing; what it holds there is given back after."""
        with self._turn_path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # let go by the file's end
            try:
                yield
            finally:
                self._times.give_back(self._layers.device)

    def told(self) -> dict[str, Json]:
        """What all of its times rest on."""
        import torch

        kind = self._layers.device.type
        name = torch.cuda.get_device_name() if kind == "cuda" else "cpu"
        return {
            "method": self._times.METHOD[kind],
            "device": name,
            "cache_bytes": self._cache,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }

    def time(
        self,
        backend: str,
        quantization: Mapping[str, Any] | None,
        product: Product,
        *,
        first_call_alone: bool = False,
    ) -> tuple[PartTiming, bool]:
        """One product, and whether the process is to be given up after it."""
        import torch

        from experiments.engines.vllm.timed_layers import Refused, kernel_of, weight_bytes

        try:
            with self._layers.under(backend):
                with self._turn():
                    first = self._layers.layer(product, quantization)
                    inputs = self._layers.inputs(self._rows, product)
                first_call_s = self._times.first_call_s(first, inputs)  # others time theirs meanwhile
                if first_call_alone:
                    with self._turn():
                        del first
                    return PartTiming(product.part, product.count, first_call_s=first_call_s), False
                with self._turn():
                    size = weight_bytes(first, product)
                    copies = copies_that_fit(size, self._cache, self._times.free_bytes(self._layers.device))
                    layers = [first, *(self._layers.layer(product, quantization) for _ in range(copies - 1))]
                    samples = self._times.product_us(layers, inputs)
                    timing = PartTiming(
                        part=product.part,
                        count=product.count,
                        us=self._times.typical_us(samples),
                        samples_us=tuple(samples),
                        copies=copies,
                        weight_bytes=size,
                        kernel=kernel_of(first),
                        first_call_s=first_call_s,
                    )
                    del first, layers
                return timing, False
        except Refused as reason:
            return PartTiming(product.part, product.count, refused=str(reason)), False
        except TooLittleMemory as reason:
            return PartTiming(product.part, product.count, untimed=str(reason)), False
        except torch.OutOfMemoryError as reason:
            why = f"not enough memory to prepare its weights: {_first_line(reason)}"
            return PartTiming(product.part, product.count, untimed=why), False
        except Exception as failure:
            traceback.print_exception(failure)
            why = f"{type(failure).__name__}: {_first_line(failure)}"
            return PartTiming(product.part, product.count, untimed=why), True


def answer(timer: Timer, request: Mapping[str, Any]) -> dict[str, Any]:
    """The part that was asked for, and whether the process may be asked again."""
    product = Product(**request["product"])
    part, broken = timer.time(
        request["backend"], request["quantization"], product, first_call_alone=request[AGAIN]
    )
    return {OK_PART: asdict(part), BROKEN: broken}


def main() -> None:
    """Answer until the parent goes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print belongs into the log
    requests = requests_from(sys.stdin.buffer)
    try:
        timer = Timer(requests.get())
    except Exception as failure:
        traceback.print_exception(failure)
        why = f"vLLM's layers could not be begun: {type(failure).__name__}: {_first_line(failure)}"
        send(replies, infeasible_data(Infeasible("crashed", why)))
        return
    send(replies, {"ok": timer.told()})
    while True:
        reply: dict[str, Json] = {"ok": answer(timer, requests.get())}
        send(replies, reply)


def _first_line(failure: BaseException) -> str:
    return str(failure).strip().partition("\n")[0]


if __name__ == "__main__":
    main()
