"""What an artifact is the output of: kind, typed inputs, the artifacts it was built from, the tools."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from experiments.measurement.evidence import Json


@dataclass(frozen=True)
class ArtifactKey:
    """The canonical inputs of an artifact; equal inputs give an equal digest and so the same artifact.

    `inputs` are JSON values (1 and 1.0 differ), `parents` the digests of the artifacts it was built from in
    the order they were used, `tool_versions` whatever would change the output when it changes.
    """

    kind: str
    inputs: Mapping[str, Json]
    parents: tuple[str, ...] = ()
    tool_versions: Mapping[str, Json] = field(default_factory=dict)

    def canonical_json(self) -> str:
        """The text that is hashed: sorted keys, no spaces; raises `ValueError` for a NaN or an infinity."""
        return json.dumps(
            {
                "kind": self.kind,
                "inputs": dict(self.inputs),
                "parents": list(self.parents),
                "tool_versions": dict(self.tool_versions),
            },
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
            allow_nan=False,
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, 64 hexadecimal characters."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()
