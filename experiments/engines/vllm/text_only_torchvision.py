"""Lets torchvision be imported beside a build of torch that it was not made for, where only text is served.

Copied into an environment for CPUs by `install.py`, and run when its Python starts. The torchvision of the
package index is a CUDA build: beside a CPU build of torch two of its operators are missing, and already its
import fails, although nothing that serves text calls them. Here they get a signature, and no code.
"""

import sys
from importlib.abc import MetaPathFinder


class _DefineOperators(MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):  # type: ignore[no-untyped-def]
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            import torch

            self.library = torch.library.Library("torchvision", "DEF")
            for name in ("nms", "qnms"):
                self.library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


_KEPT = _DefineOperators()
sys.meta_path.insert(0, _KEPT)
