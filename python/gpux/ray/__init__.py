"""Embed texts and run models on a Ray cluster.

`embed()` and `run()` are transformations of Ray Data's datasets; `deployment()` is an application of Ray Serve. Workers
get the model from the driver by its digest, once per node. Needs the extra: pip install 'gpux[ray]'.
"""

from __future__ import annotations

try:
    import ray as _ray  # noqa: F401
except ImportError as error:
    raise ImportError("gpux.ray needs Ray: install gpux with its extra, gpux[ray]") from error

from gpux.ray.datasets import embed, run
from gpux.ray.packages import Package, pack
from gpux.ray.serving import deployment, release

__all__ = ["Package", "deployment", "embed", "pack", "release", "run"]
