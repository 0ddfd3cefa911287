"""More Python text to train on: the source of permissively licensed packages that happen to be installed.

Only the recipe of the reference model reads this. Evaluation and calibration use the standard library alone,
which every machine has.
"""

import importlib.metadata
import importlib.util
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from experiments.corpora.passages import passage_hashes
from experiments.corpora.standard_library import Document, fingerprint

PERMISSIVE_PACKAGES = {
    "_pytest": "MIT",
    "absl": "Apache-2.0",
    "accelerate": "Apache-2.0",
    "aiohttp": "Apache-2.0",
    "anyio": "MIT",
    "attr": "MIT",
    "botorch": "MIT",
    "cffi": "MIT",
    "chex": "Apache-2.0",
    "click": "BSD-3-Clause",
    "coverage": "Apache-2.0",
    "Cython": "Apache-2.0",
    "dateutil": "Apache-2.0",
    "diffrax": "Apache-2.0",
    "einops": "MIT",
    "equinox": "Apache-2.0",
    "execnet": "MIT",
    "filelock": "Unlicense",
    "flax": "Apache-2.0",
    "formulaic": "MIT",
    "fsspec": "BSD-3-Clause",
    "gpytorch": "MIT",
    "h11": "MIT",
    "h5py": "BSD-3-Clause",
    "httpcore": "BSD-3-Clause",
    "httpx": "BSD-3-Clause",
    "huggingface_hub": "Apache-2.0",
    "imageio": "BSD-2-Clause",
    "jax": "Apache-2.0",
    "jinja2": "BSD-3-Clause",
    "joblib": "BSD-3-Clause",
    "lightning": "Apache-2.0",
    "llvmlite": "BSD-2-Clause",
    "markdown": "BSD-3-Clause",
    "markdown_it": "MIT",
    "mesonbuild": "Apache-2.0",
    "mpmath": "BSD-3-Clause",
    "nanobind": "BSD-3-Clause",
    "narwhals": "MIT",
    "networkx": "BSD-3-Clause",
    "numba": "BSD-2-Clause",
    "numpy": "BSD-3-Clause",
    "numpyro": "Apache-2.0",
    "onnx": "Apache-2.0",
    "onnxscript": "MIT",
    "opt_einsum": "MIT",
    "optax": "Apache-2.0",
    "orbax": "Apache-2.0",
    "packaging": "Apache-2.0 OR BSD-2-Clause",
    "pandas": "BSD-3-Clause",
    "patsy": "BSD-2-Clause",
    "peft": "Apache-2.0",
    "pip": "MIT",
    "portalocker": "BSD-3-Clause",
    "prometheus_client": "Apache-2.0",
    "psutil": "BSD-3-Clause",
    "pyarrow": "Apache-2.0",
    "pygments": "BSD-2-Clause",
    "pyparsing": "MIT",
    "requests": "Apache-2.0",
    "rich": "MIT",
    "sacrebleu": "Apache-2.0",
    "scikit_build_core": "Apache-2.0",
    "scipy": "BSD-3-Clause",
    "seaborn": "BSD-3-Clause",
    "sentence_transformers": "Apache-2.0",
    "setuptools": "MIT",
    "simplejson": "MIT",
    "skimage": "BSD-3-Clause",
    "sklearn": "BSD-3-Clause",
    "sortedcontainers": "Apache-2.0",
    "statsmodels": "BSD-3-Clause",
    "sympy": "BSD-3-Clause",
    "tabulate": "MIT",
    "tensorboard": "Apache-2.0",
    "tifffile": "BSD-3-Clause",
    "timm": "Apache-2.0",
    "toolz": "BSD-3-Clause",
    "torch": "BSD-3-Clause",
    "torch_geometric": "MIT",
    "torchaudio": "BSD-2-Clause",
    "torchmetrics": "Apache-2.0",
    "torchvision": "BSD-3-Clause",
    "transformers": "Apache-2.0",
    "treescope": "Apache-2.0",
    "typer": "MIT",
    "urllib3": "MIT",
    "werkzeug": "BSD-3-Clause",
    "wheel": "MIT",
    "wrapt": "BSD-2-Clause",
    "xarray": "Apache-2.0",
    "xdist": "MIT",
    "yaml": "MIT",
}
"""Import name → SPDX licence, as each package's metadata states it (read in November 2026)."""

PACKAGE_MAX_BYTES = 12_000_000
"""A package gives at most this much text, or a few very large ones would drown the others."""

FILE_BYTES = (400, 200_000)
"""Shorter files are re-exports; longer ones are mostly tables."""

LONG_LINE_CHARS = 400
"""A file with a longer line holds data, or was written by a program."""

SKIPPED_FOLDERS = frozenset(
    {"test", "tests", "testing", "_vendor", "_vendored", "vendor", "externals", "extern"}
)
"""Tests repeat what they test; vendored code has other licences."""


@dataclass(frozen=True)
class PackageText:
    """The text taken from one package, with what a model card must say about it."""

    package: str
    version: str
    licence: str
    documents: tuple[Document, ...]

    @property
    def text_bytes(self) -> int:
        """Size of all documents together, in UTF-8 bytes."""
        return sum(len(document.text.encode()) for document in self.documents)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the documents' names and texts."""
        return fingerprint(self.documents)


def installed_package_texts(held_out: Set[int], packages: tuple[str, ...] | None = None) -> list[PackageText]:
    """Return the text of each permissive package that is installed, in order of name.

    Args:
        held_out: hashes of passages that must not be trained on; a file that has one is dropped, and so is a
            file most of whose passages stand in files before it (repetition teaches nothing new).
        packages: import names to look at; all of `PERMISSIVE_PACKAGES` if not given.
    """
    texts = []
    for package in sorted(packages if packages is not None else PERMISSIVE_PACKAGES):
        root = _package_root(package)
        if root is None:
            continue
        documents = _package_documents(package, root, held_out)
        if documents:
            texts.append(PackageText(package, _version(package), PERMISSIVE_PACKAGES[package], documents))
    return texts


def _package_root(package: str) -> Path | None:
    """Return the folder of an installed package without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _version(package: str) -> str:
    """Return the version of the distribution that holds the package, or `unknown`."""
    distributions = importlib.metadata.packages_distributions().get(package, [])
    return importlib.metadata.version(distributions[0]) if distributions else "unknown"


def _package_documents(package: str, root: Path, held_out: Set[int]) -> tuple[Document, ...]:
    """Read a package's files in order of path, up to `PACKAGE_MAX_BYTES`, spread evenly over the package."""
    paths = [
        path for path in sorted(root.rglob("*.py")) if not SKIPPED_FOLDERS & set(path.relative_to(root).parts)
    ]
    total_bytes = sum(path.stat().st_size for path in paths)
    stride = max(1, -(-total_bytes // PACKAGE_MAX_BYTES))
    documents = []
    seen: set[int] = set()
    for path in paths[::stride]:
        if not FILE_BYTES[0] <= path.stat().st_size <= FILE_BYTES[1]:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, OSError):
            continue
        passages = passage_hashes(text)
        if not passages.isdisjoint(held_out) or max(map(len, text.splitlines()), default=0) > LONG_LINE_CHARS:
            continue
        if passages and len(passages & seen) * 2 > len(passages):
            continue
        seen |= passages
        documents.append(Document(".".join((package, *path.relative_to(root).with_suffix("").parts)), text))
    return tuple(documents)
