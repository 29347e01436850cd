"""What was built: the version, and the toolkits of other vendors it was built with, if any."""

from __future__ import annotations

from flambeau.torch_version import __version__

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

debug = False
git_version = "unknown"
# The CUDA library is built apart and found when a device is first used; nothing here is tied to
# a version of it.
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
