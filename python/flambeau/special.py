"""Special functions: the core's ops whose names start with `special_`, and others under the names
that SciPy gives them."""

from __future__ import annotations

from typing import Any

from flambeau import _C

_ops: Any = _C
_OPS = {name[8:]: op for name, op in vars(_C).items() if name.startswith("special_")}
globals().update(_OPS)

_SAME = """digamma erf erfc erfinv exp2 expm1 i0 log1p log_softmax logit logsumexp polygamma round
sinc softmax xlogy""".split()
_OTHER_NAMES = {
    "expit": "sigmoid",
    "gammainc": "igamma",
    "gammaincc": "igammac",
    "gammaln": "lgamma",
    "multigammaln": "mvlgamma",
    "psi": "digamma",
}
globals().update({name: getattr(_ops, name) for name in _SAME})
globals().update({name: getattr(_ops, of) for name, of in _OTHER_NAMES.items()})

__all__ = list(_OPS)
__all__ += list(_SAME)
__all__ += list(_OTHER_NAMES)
