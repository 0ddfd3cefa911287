"""The process that computes Block Influence: one request by stdin, one answer on stdout, the log on stderr.

Started as `python -m experiments.stages.block_influence_process` by `prune.py`. Request: `checkpoint`,
`documents` (lists of token ids), `threads`. Answer: `{"ok": [score, …]}` or `{"infeasible": {"kind": …,
"cause": …}}`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from experiments.engines.parent import requests_from
from experiments.engines.port import Infeasible


def answer(request: dict[str, Any]) -> list[float]:
    """The scores; raises `Infeasible` for a checkpoint that can't be loaded."""
    import torch

    from experiments.engines.reference.checkpoint import load_model
    from experiments.engines.reference.inspection import inspect_checkpoint
    from experiments.stages.block_influence import block_influence

    torch.set_num_threads(request["threads"])
    files = inspect_checkpoint(Path(request["checkpoint"]))
    model = load_model(files, torch.float32, torch.device("cpu"))
    return block_influence(model, request["documents"])


def main() -> None:
    """Answer one request."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    requests = requests_from(sys.stdin.buffer)
    try:
        reply: dict[str, object] = {"ok": answer(requests.get())}
    except Infeasible as refusal:
        reply = {"infeasible": {"kind": refusal.kind, "cause": refusal.cause}}
    replies.write(json.dumps(reply))
    replies.flush()


if __name__ == "__main__":
    main()
