"""The first token of a lone request by vLLM's own server as it starts by itself, and as a campaign has it.

    python -m tests.device.plain_server --shape qwen3.5-9b --device cuda:0 --out DIR
    python -m tests.device.plain_server --table docs/results/campaigns/h200-9b-plain-server.json

Three servers come up side by side, each given as little as a shape needs, and a cache of a fixed size,
without which each would count what the others hold as its own: `plain` with nothing besides, `campaign` as a
campaign's launches are begun, with the room for 16 requests that the space begins with, `graphs` with that
and CUDA graphs of up to 512 tokens. Each is asked by the client that campaigns have, one request at a time,
in turns; every second round has the turns reversed. Told are the medians of the rounds' medians, how far a
server lies from `campaign` (the geometric mean of the rounds' ratios, with its 95 % interval by Student's t
on their logarithms), and what each server's log says that it captures. What was measured is kept in
`DIR/plain.json` after each round, and the servers' logs beside it. The three take 140 GB of a GPU for 9B.

A plain server compiles FlashInfer's sampler, which a campaign's launches are begun without. Where its sources
are not there, as in a packed environment (`pack.sh`), it does not come up: `--pytorch-sampler` begins it
without, too. Requests here are greedy, for which neither samples.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from configs.errors import AutoinferError
from configs.models import load_model_profile
from experiments.engines.port import Infeasible
from experiments.engines.server_process import SOCKETS, end_process_tree, sockets_parent
from experiments.engines.vllm.driver_process import driver_environment
from experiments.engines.vllm.environment import needed_environment
from experiments.engines.vllm.http_client_process import HttpClient
from experiments.engines.vllm.openai_app import SERVED_AS
from experiments.measurement.prompts import load_tokenizer
from experiments.reference_model.load import reference_model_path
from experiments.scratch import ScratchFolder
from experiments.shapes.folder import write_shape
from experiments.space.configuration import Configuration
from tests.benchmarks.serving_arms import Load, by_client, prompts
from tests.benchmarks.serving_comparison import difference
from tests.proofs.counting import at_least_one

PLAIN, CAMPAIGN, GRAPHS = "plain", "campaign", "graphs"

AS_LAUNCHED = ("--max-num-seqs", "16", "--no-enable-prefix-caching", "--disable-uvicorn-access-log")
"""What the server of a campaign's launch is given, beside what a shape needs."""

SERVERS: Mapping[str, tuple[str, ...]] = {
    PLAIN: (),
    CAMPAIGN: AS_LAUNCHED,
    GRAPHS: (*AS_LAUNCHED, "--compilation-config", '{"max_cudagraph_capture_size":512}'),
}
"""What each is given beside what all are."""

CACHE_BYTES = 20 * 10**9
"""Of keys, values and states, in each server: on an H200 a plain one wants a block for each of 1,024
requests, 17.7 GB of 9B's."""

SAMPLER = "VLLM_USE_FLASHINFER_SAMPLER"
"""What a launch sets to 0 and a plain server leaves to vLLM."""

BATCH_TOKENS, CAPTURED = "max_num_batched_tokens", "max_cudagraph_capture_size"
SAID = re.compile(rf"({BATCH_TOKENS}|{CAPTURED})'?[=:] ?(\d+)")
"""What a server's log says of how much it takes and captures."""

UP_LIMIT_S, POLL_S = 400.0, 0.5
"""How long all servers may take to come up, and between two looks, seconds."""


class Server:
    """`python -m vllm.entrypoints.openai.api_server` on a free port, until it is closed."""

    def __init__(self, python: Path, given: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address, self.log = f"http://127.0.0.1:{port}", log
        command = [str(python), "-P", "-m", "vllm.entrypoints.openai.api_server", *given]
        command += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", SERVED_AS]
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=dict(environment)
            )

    def wait(self, until_s: float) -> None:
        """Until it answers; raises `RuntimeError` with its log's path where it does not by then."""
        while time.monotonic() < until_s and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.address}/health", timeout=5):
                    return
            except OSError:
                time.sleep(POLL_S)
        raise RuntimeError(f"vLLM's server did not come up; {self.log} tells what it said")

    def said(self) -> dict[str, int]:
        """What its log says last of each figure."""
        return {name: int(value) for name, value in SAID.findall(self.log.read_text(errors="replace"))}

    def close(self) -> None:
        """End it and all that it started; idempotent."""
        end_process_tree(self._process)


def words(model: Path, tokenizer: Path, more: Sequence[str], cache_bytes: int = CACHE_BYTES) -> list[str]:
    """The arguments of a server of a shape; pure."""
    return [
        "--model", str(model), "--tokenizer", str(tokenizer),
        "--load-format", "dummy", "--language-model-only",
        "--max-model-len", "4096", "--generation-config", "vllm",
        "--kv-cache-memory-bytes", str(cache_bytes), "--gpu-memory-utilization", "0.05",
        *more,
    ]  # fmt: skip


def environment_of(name: str, of_launch: Mapping[str, str], *, pytorch_sampler: bool) -> dict[str, str]:
    """The variables of a server: a launch's, of which the plain one leaves the sampler to vLLM; pure."""
    leaves = name == PLAIN and not pytorch_sampler
    return {each: value for each, value in of_launch.items() if not (leaves and each == SAMPLER)}


def measured(
    shape: str,
    device: str,
    rounds: int,
    load: Load,
    out: Path,
    cache: Path,
    cache_bytes: int,
    *,
    pytorch_sampler: bool = False,
) -> dict[str, Any]:
    """Start the servers, ask them in turns, end them; what was measured is kept in `out` after each round."""
    found = needed_environment(device)
    tokenizer = reference_model_path()
    model = write_shape(load_model_profile(shape), Configuration.of({}), out / "shape")
    with ExitStack() as stack:
        servers: dict[str, Server] = {}
        for name, more in SERVERS.items():
            temporary = stack.enter_context(ScratchFolder(SOCKETS, sockets_parent()))
            environment = environment_of(
                name,
                driver_environment(found.python, device, cache, str(temporary), str(temporary)),
                pytorch_sampler=pytorch_sampler,
            )
            log = out / f"{name}.log"
            servers[name] = Server(found.python, words(model, tokenizer, more, cache_bytes), environment, log)
            stack.callback(servers[name].close)
        until_s = time.monotonic() + UP_LIMIT_S
        clients: dict[str, HttpClient] = {}
        for name, server in servers.items():
            server.wait(until_s)
            clients[name] = HttpClient(server.address, found, out / f"{name}-client.log", cache)
            stack.callback(clients[name].close)
        told: dict[str, Any] = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": sys.argv[1:],
            "vllm": found.version,
            "asked": {"shape": shape, "prompt_tokens": load.prompt_tokens, "new_tokens": load.new_tokens},
            "said": {name: server.said() for name, server in servers.items()},
            "given": {name: list(more) for name, more in SERVERS.items()},
            "rounds": [],
        }
        read = load_tokenizer(tokenizer)
        for turn in range(1 + rounds):  # the first to warm up
            texts = prompts(read, load, seed=turn)
            order = list(servers) if turn % 2 == 0 else list(reversed(servers))
            of_round = {name: by_client(clients[name], texts, load)[1]["ttft_s"] for name in order}
            if turn:
                told["rounds"].append(of_round)
                middle = {name: f"{1e3 * median(of_round[name]):.1f} ms" for name in servers}
                print(turn, middle, flush=True)
                (out / "plain.json").write_text(json.dumps(told), encoding="utf-8")
    return told


def table(told: Mapping[str, Any]) -> str:
    """What was measured, as lines of Markdown; pure."""
    of_round = [{name: 1e3 * median(times) for name, times in each.items()} for each in told["rounds"]]
    head = (
        "server",
        "given besides",
        "tokens of a step",
        "graphs up to",
        "first token, ms",
        "against `campaign`",
    )
    rows = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name, given in told["given"].items():
        said = told["said"][name]
        takes = " | ".join(str(said.get(each, "not told")) for each in (BATCH_TOKENS, CAPTURED))
        values = [each[name] for each in of_round]
        off = difference(values, [each[CAMPAIGN] for each in of_round])
        against = "—"
        if name != CAMPAIGN and off.low is not None and off.high is not None:
            against = f"{100 * off.value:+.1f} % ({100 * off.low:+.1f} to {100 * off.high:+.1f})"
        besides = f"`{' '.join(given)}`" if given else "nothing"
        rows.append(f"| `{name}` | {besides} | {takes} | {median(values):.1f} | {against} |")
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, or print the table of what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--table", type=Path, metavar="FILE", help="print the table of that, no more")
    parser.add_argument("--shape", default="qwen3.5-9b")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--rounds", type=at_least_one, default=6)
    parser.add_argument("--requests", type=at_least_one, default=10, help="of a round, one at a time")
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--new-tokens", type=int, default=16)
    parser.add_argument(
        "--cache-gb", type=float, default=CACHE_BYTES / 1e9, help="of keys, values and states"
    )
    parser.add_argument(
        "--pytorch-sampler",
        action="store_true",
        help="begin the plain server without FlashInfer's sampler too",
    )
    parser.add_argument("--cache", type=Path, metavar="DIR", help="compiled code that is kept between runs")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="an empty folder; a temporary one if not given"
    )
    given = parser.parse_args(arguments)
    try:
        told = _told(given)
    except (Infeasible, AutoinferError, RuntimeError, OSError) as reason:
        print(reason, file=sys.stderr)
        return 1
    print(table(told))
    return 0


def _told(given: argparse.Namespace) -> Mapping[str, Any]:
    """What was measured before, or is now."""
    if given.table is not None:
        return dict(json.loads(given.table.read_text(encoding="utf-8")))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers are ended
    with tempfile.TemporaryDirectory() as folder:
        out = given.out or Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        cache = given.cache or Path(folder, "cache")
        cache.mkdir(parents=True, exist_ok=True)
        load = Load(given.requests, 1, given.prompt_tokens, given.new_tokens)
        cache_bytes = round(1e9 * given.cache_gb)
        return measured(
            given.shape,
            given.device,
            given.rounds,
            load,
            out,
            cache,
            cache_bytes,
            pytorch_sampler=given.pytorch_sampler,
        )


if __name__ == "__main__":
    sys.exit(main())
