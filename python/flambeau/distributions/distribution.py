"""Distribution: the base of all distributions. Samples have the shape sample + batch + event."""

from __future__ import annotations

import warnings
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.utils import lazy_property

__all__ = ["Distribution"]


def _as_size(shape: Any) -> Any:
    """A Size; what is none, such as the shapes of several tensors, stays what a subclass gave."""
    try:
        return flambeau.Size(shape)
    except TypeError:
        return shape


class Distribution:
    """A probability distribution, or a batch of independent ones of the same family.

    A class whose parameters all have the shape of the batch names them in `_batch_parameters`, by
    which `expand` knows what to expand.

    Args:
        batch_shape: the shape of the batch.
        event_shape: the shape of one sample of one of them.
        validate_args: whether to check parameters and values against their constraints; by default
            as `set_default_validate_args` says.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Sets whether distributions check their parameters unless told otherwise."""
        if value not in (True, False):
            raise ValueError(f"validate_args must be True or False, got {value}")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Any = flambeau.Size(),
        event_shape: Any = flambeau.Size(),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape, self._event_shape = _as_size(batch_shape), _as_size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = "
                "{}` or initialize the distribution with `validate_args=False` to turn off "
                "validation.",
                stacklevel=3,
            )
            return
        for name, constraint in arg_constraints.items():
            # What depends on other parameters, and what is computed on demand, is not checked.
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(
                getattr(type(self), name, None), lazy_property
            ):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with its parameters expanded to a larger batch."""
        owner: Any = next(
            (cls for cls in type(self).__mro__ if "_batch_parameters" in vars(cls)), None
        )
        if owner is None:
            raise NotImplementedError(f"{type(self).__name__} does not implement expand")
        new = self._get_checked_instance(owner, _instance)
        batch_shape = flambeau.Size(batch_shape)
        for name in owner._batch_parameters:
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name].expand(batch_shape))
        return self._finish(new, batch_shape)

    def _finish(self, new: Any, batch_shape: Any, event_shape: Any = None) -> Any:
        """Completes what `expand` filled: shapes, and the checks, which have been made."""
        event_shape = self._event_shape if event_shape is None else event_shape
        Distribution.__init__(new, batch_shape, event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """The object that `expand` of the class `cls` fills; subclasses pass their own."""
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom "
                "__init__ method must also define a custom .expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Any:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one sample of one distribution."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The constraint of each parameter."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The constraint that samples satisfy."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """A value of the highest density."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The expected squared distance from the mean."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = flambeau.Size()) -> Tensor:
        """Samples without gradients."""
        with flambeau.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = flambeau.Size()) -> Tensor:
        """Samples that are differentiable functions of the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """`n` samples."""
        import warnings

        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return self.sample(flambeau.Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or probability, at a value."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most a value."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The value that is not exceeded with a probability."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values that a discrete distribution takes, along a new first dimension."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The expected negative log-probability."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return flambeau.exp(self.entropy())

    def _extended_shape(self, sample_shape: Any = flambeau.Size()) -> Any:
        """The shape of samples."""
        if not isinstance(sample_shape, flambeau.Size):
            sample_shape = flambeau.Size(sample_shape)
        return flambeau.Size(sample_shape + self._batch_shape + self._event_shape)

    def _validate_sample(self, value: Tensor) -> None:
        """Raises ValueError unless a value has a shape and numbers the distribution can have."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        event_start = len(value.size()) - len(self._event_shape)
        if value.size()[event_start:] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.size()} vs "
                f"{self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        for given, wanted in zip(reversed(value.size()), reversed(expected)):
            if given != 1 and wanted != 1 and given != wanted:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.size()} vs "
                    f"{expected}."
                )
        try:
            support = self.support
        except NotImplementedError:
            return
        if support is not None and not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({support!r}) of the distribution {self!r}, but found "
                f"invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        shown = []
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                text = f"{value}" if value.numel() == 1 else f"{value.size()}"
                shown.append(f"{name}: {text}")
        return f"{type(self).__name__}({', '.join(shown)})"
