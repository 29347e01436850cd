"""What was built: the version, and the toolkits of other vendors it was built with, if any."""

from __future__ import annotations

from flambeau.torch_version import __version__

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

TYPE_CHECKING = False
debug = False
git_version = "unknown"
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
if TYPE_CHECKING:
    cuda: str | None


def __getattr__(name: str) -> str | None:
    # The CUDA library is built apart and found when a device is first used: so is its version.
    if name != "cuda":
        raise AttributeError(f"module 'flambeau.version' has no attribute '{name}'")
    from flambeau import _C
    from flambeau.cuda import _libraries

    if _C._cuda_device_count() == 0:
        return None
    return _libraries.runtime_version()
