"""Special functions: the core's ops whose names start with `special_`, those that are also
here, and others under the names that SciPy gives them."""

from __future__ import annotations

from typing import Any

from flambeau import _C

_core: Any = _C
_OPS = {name[8:]: op for name, op in vars(_C).items() if name.startswith("special_")}
_OPS |= {name: op for name in _C._ops_with("in_special") if (op := getattr(_C, name, None))}
globals().update(_OPS)
expit = _core.sigmoid
gammainc = _core.igamma
gammaincc = _core.igammac
gammaln = _core.lgamma
multigammaln = _core.mvlgamma
psi = _core.digamma

__all__ = ["expit", "gammainc", "gammaincc", "gammaln", "multigammaln", "psi"]
__all__ += list(_OPS)
