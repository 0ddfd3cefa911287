"""A process that builds one artifact: `python -P -m tests.integration.artifacts.building ROOT LOG [WAIT]`.

Each build appends a line to LOG. With WAIT it says `building` when it has begun and goes on when its input
ends.
"""

import os
import sys
from pathlib import Path

from experiments.artifacts.key import ArtifactKey
from experiments.artifacts.store import ArtifactStore

KEY = ArtifactKey("checkpoint", {"layers": 3}, ("parent",), {"torch": "2"})

CONTENT = b"weights" * 1000


def main() -> None:
    root, log, wait = Path(sys.argv[1]), Path(sys.argv[2]), len(sys.argv) > 3

    def build(folder: Path) -> None:
        with log.open("a") as file:
            file.write(f"{os.getpid()}\n")
        if wait:
            print("building", flush=True)
            sys.stdin.read()
        write(folder)

    with ArtifactStore(root) as store:
        artifact = store.build(KEY, build)
    print("built" if artifact.built else "reused", flush=True)


def write(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(CONTENT)
    (folder / "deep").mkdir()
    (folder / "deep" / "config.json").write_text("{}")


if __name__ == "__main__":
    main()
