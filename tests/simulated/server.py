"""The process of the simulated engine: answers requests with made-up times; run by `python -I -S server.py`.

It computes nothing and stands for no device: its numbers come from its configuration and a random generator.
One lock file is shared by all servers of a job on a device, so that two of them computing at once is noticed.
"""

import fcntl
import json
import os
import random
import signal
import sys
import time


def main() -> None:
    order = json.loads(sys.stdin.readline())
    knobs = order["knobs"]
    time.sleep(knobs.get("simulated.load_s", 0.0))
    if knobs.get("simulated.fails") == "load":
        says = knobs.get("simulated.says", "simulated: no memory for the weights")
        print(says, file=sys.stderr, flush=True)
        sys.exit(3)
    print("simulated: ready", file=sys.stderr, flush=True)
    say({"ready": True})
    noise = random.Random(os.urandom(8))
    launch_factor = 1 + noise.gauss(0, knobs.get("simulated.launch_sd", 0.002))
    requests = 0
    with open(order["lock"], "w") as lock:
        for line in sys.stdin:
            request = json.loads(line)
            if knobs.get("simulated.fails") == request["op"] and requests >= knobs.get(
                "simulated.fails_after", 0
            ):
                os.kill(os.getpid(), signal.SIGKILL)
            if knobs.get("simulated.hangs") == request["op"] and requests >= knobs.get(
                "simulated.hangs_after", 0
            ):
                signal.pause()
            requests += 1
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say({"overlap": True})
                continue
            time.sleep(knobs.get("simulated.request_s", 0.0))
            told = answer(request, knobs, noise, launch_factor)
            fcntl.flock(lock, fcntl.LOCK_UN)  # before the answer, which lets the next one begin
            say(told)


def answer(request: dict, knobs: dict, noise: random.Random, launch_factor: float) -> dict:
    tpot_s = knobs["simulated.tpot_ms"] * 1e-3 * launch_factor
    if request["op"] == "generate":
        at, times = 0.0, []
        for token in range(request["new_tokens"]):
            at += tpot_s * (2 if token == 0 else 1) * (1 + noise.gauss(0, 0.005))
            times.append(at)
        return {"token_times_s": times}
    if request["op"] == "score":
        bits = knobs.get("simulated.bits", 1000.0)
        if request["write_reference"]:
            with open(request["write_reference"], "w") as file:
                json.dump({"bits": bits}, file)
        kl = None
        if request["reference"]:
            with open(request["reference"]) as file:
                kl = abs(json.load(file)["bits"] - bits) / 1000
        return {
            "documents": [
                [item, bits * (1 + 0.1 * number), kl] for number, item in enumerate(request["documents"])
            ],
            "tasks": [
                [item, place >= knobs.get("simulated.unsolved", 0)]
                for place, item in enumerate(request["tasks"])
            ],
        }
    return {
        "parts": [
            ["layers", "simulated", 0.8 * tpot_s * 1e3, 1000],
            ["rest", "simulated", 0.2 * tpot_s * 1e3, 0],
        ]
    }


def say(message: dict) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
