"""The Kullback-Leibler divergence of two distributions, by a registry of pairs of classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import total_ordering
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions.distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Any] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Decorates the function that computes the divergence of two classes of distributions.

    For a pair of subclasses the most specific function is used.
    """
    for kind in (type_p, type_q):
        # A class that only behaves like a distribution may have divergences, too.
        if not isinstance(kind, type):
            raise TypeError(f"Expected Distribution subclass but got {kind!r}")

    def decorator(function: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return decorator


@total_ordering
class _Match:
    """How specific a pair of classes is: less is more specific."""

    __slots__ = ("types",)

    def __init__(self, *types: type) -> None:
        self.types = types

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Match) and self.types == other.types

    def __le__(self, other: _Match) -> bool:
        for mine, theirs in zip(self.types, other.types):
            if not issubclass(mine, theirs):
                return False
            if mine is not theirs:
                break
        return True

    __hash__ = object.__hash__


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The most specific function for two classes, or NotImplemented."""
    matches = [
        (super_p, super_q)
        for super_p, super_q in _KL_REGISTRY
        if issubclass(type_p, super_p) and issubclass(type_q, super_q)
    ]
    if not matches:
        return NotImplemented
    # Either class may be looked at first; that both orders agree is what makes a match clear.
    left_p, left_q = min(_Match(*m) for m in matches).types
    right_q, right_p = min(_Match(*reversed(m)) for m in matches).types
    left, right = _KL_REGISTRY[left_p, left_q], _KL_REGISTRY[right_p, right_q]
    if left is not right:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({left_p.__name__}, {right_q.__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return left


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The expected value, under p, of log p - log q."""
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    if _KL_MEMOIZE[pair] is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {pair[0].__name__} and q type "
            f"{pair[1].__name__}"
        )
    return _KL_MEMOIZE[pair](p, q)


def _infinite_like(tensor: Tensor) -> Tensor:
    """Infinity: p has values that q never takes."""
    return flambeau.full_like(tensor, flambeau.inf)


def _x_log_x(tensor: Tensor) -> Tensor:
    return flambeau.xlogy(tensor, tensor)


def _batch_trace_XXT(matrix: Tensor) -> Tensor:
    """The trace of X X^T."""
    return matrix.pow(2).sum((-2, -1))


from flambeau.distributions import _kl_pairs  # noqa: E402, F401
