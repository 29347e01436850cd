"""Linear algebra: the core's ops whose names start with `linalg_`."""

from __future__ import annotations

from flambeau import _C

LinAlgError = _C._LinAlgError

_OPS = {name[7:]: op for name, op in vars(_C).items() if name.startswith("linalg_")}
globals().update(_OPS)

__all__ = ["LinAlgError"]
__all__ += list(_OPS)
