"""Adds the health check to an image in an OCI layout, or shows it.

usage: add_health_check.py [--show] LAYOUT TAG

Health checks are Docker's extension of an OCI image's configuration, and umoci has no flag for them.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

NANOSECONDS = 1_000_000_000
HEALTH_CHECK = {
    "Test": ["CMD", "/usr/bin/gpux", "health"],
    "Interval": 30 * NANOSECONDS,
    "Timeout": 15 * NANOSECONDS,  # longer than 'gpux health' waits for the server
    "StartPeriod": 60 * NANOSECONDS,
    "Retries": 3,
}


class Layout:
    """The blobs of an OCI layout, by descriptor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, digest: str) -> Path:
        return self.folder / "blobs" / digest.replace(":", "/")

    def read(self, descriptor: dict[str, Any]) -> Any:
        return json.loads(self.path(descriptor["digest"]).read_text())

    def write(self, descriptor: dict[str, Any], value: Any) -> None:
        """Stores the blob under its new digest, which the descriptor then has."""
        data = json.dumps(value, separators=(",", ":")).encode()
        descriptor["digest"] = "sha256:" + hashlib.sha256(data).hexdigest()
        descriptor["size"] = len(data)
        self.path(descriptor["digest"]).write_bytes(data)


def main(arguments: list[str]) -> int:
    shows = arguments[:1] == ["--show"]
    if len(arguments) != (3 if shows else 2):
        print(__doc__, file=sys.stderr)
        return 2
    layout, tag = Layout(Path(arguments[-2])), arguments[-1]
    index_file = layout.folder / "index.json"
    index = json.loads(index_file.read_text())
    descriptor = next(
        one for one in index["manifests"] if one["annotations"]["org.opencontainers.image.ref.name"] == tag
    )
    manifest = layout.read(descriptor)
    config = layout.read(manifest["config"])
    if shows:
        print(json.dumps(config["config"]["Healthcheck"]))
        return 0
    config["config"]["Healthcheck"] = HEALTH_CHECK
    layout.write(manifest["config"], config)
    layout.write(descriptor, manifest)
    index_file.write_text(json.dumps(index))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
