"""Lets torchvision be imported beside a build of torch that it was not made for, where only text is served.

Copied into an environment for CPUs by `install.py`, and run when its Python starts. The torchvision of the
package index is a CUDA build: beside a CPU build of torch two of its operators are missing, and already its
import fails, although nothing that serves text calls them. Here they get a signature, and no code.
"""

import sys
from importlib.abc import MetaPathFinder
from typing import Any


class _DefineOperators(MetaPathFinder):
    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            import torch

            library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
            for name in ("nms", "qnms"):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            self.library = library  # operators last as long as what defined them


_KEPT = _DefineOperators()
sys.meta_path.insert(0, _KEPT)
