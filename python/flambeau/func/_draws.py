"""Random numbers of a batch of samples, drawn as PyTorch draws them: each draw for all samples.

Samples run one after another, but what the first draws is drawn for all of them, and the others
take their parts in the same order. So the numbers are those of a function of whole batches.
"""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.overrides import TorchFunctionMode

_FILLS = frozenset(
    "bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_".split()
)
_MADE = frozenset("rand rand_like randn randn_like randint randint_like normal".split())


class BatchedDraws(TorchFunctionMode):
    """Draws for `size` samples at once; `sample` says whose turn it is."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.sample = 0
        self._drawn: list[Tensor] = []
        self._next = 0

    def begin(self, sample: int) -> None:
        """The turn of the next sample."""
        self.sample, self._next = sample, 0

    def _part(self, draw: Any, shape: Any) -> Tensor:
        """This sample's part of a draw, which is made for all in the turn of the first."""
        if self.sample == 0:
            self._drawn.append(draw())
        elif self._next >= len(self._drawn) or self._drawn[self._next].shape[1:] != shape:
            raise RuntimeError(
                "vmap: a sample draws other random numbers than the first one; with "
                "randomness='different' all samples must draw alike"
            )
        self._next += 1
        return self._drawn[self._next - 1][self.sample].clone()

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        inside = getattr(func, "__wrapped__", None)
        if inside is not None:  # a function of nn.functional, which calls ops
            with self:
                return inside(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in _FILLS and not any(isinstance(a, Tensor) for a in args[1:]):
            return self._filled(name, args[0], args[1:], kwargs)
        if name in _MADE and not any(isinstance(a, Tensor) for a in args[1:]):
            return self._made(func, name, args, kwargs)
        if name == "randperm":
            every = [func(*args, **kwargs) for _ in range(self.size)] if self.sample == 0 else []
            return self._part(lambda: flambeau.stack(every), flambeau.Size((args[0],)))
        if name in ("dropout", "dropout_") and len(args) > 2 and args[2] and 0 < args[1] < 1:
            return self._dropped(name, *args)
        return func(*args, **kwargs)

    def _filled(self, name: str, tensor: Tensor, args: Any, kwargs: dict[str, Any]) -> Tensor:
        def draw() -> Tensor:
            whole = flambeau.empty((self.size, *tensor.shape), dtype=tensor.dtype)
            return getattr(whole.to(tensor.device), name)(*args, **kwargs)

        return tensor.copy_(self._part(draw, tensor.shape))

    def _made(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        if name == "normal" and isinstance(args[0], Tensor):
            return func(*args, **kwargs)
        # One sample, drawn and given back, tells shape, dtype and device.
        generator = kwargs.get("generator") or flambeau.default_generator
        before = generator.get_state()
        single = func(*args, **kwargs)
        generator.set_state(before)
        wanted = {"dtype": single.dtype, "device": single.device}
        if "generator" in kwargs:
            wanted["generator"] = kwargs["generator"]
        shape = (self.size, *single.shape)

        def draw() -> Tensor:
            if name.startswith("randint"):
                numbers = args[1:] if name == "randint_like" else args
                bounds = [a for a in numbers if isinstance(a, int)]
                bounds += [kwargs[k] for k in ("low", "high") if k in kwargs]
                low, high = (0, *bounds)[-2:]
                return flambeau.randint(low, high, shape, **wanted)
            if name == "normal":
                return flambeau.normal(args[0], args[1], shape, **wanted)
            make = flambeau.randn if name.startswith("randn") else flambeau.rand
            return make(shape, **wanted)

        part = self._part(draw, single.shape)
        return part.requires_grad_() if single.requires_grad else part

    def _dropped(self, name: str, input: Tensor, p: float, train: bool) -> Tensor:
        def draw() -> Tensor:
            whole = flambeau.empty((self.size, *input.shape), dtype=input.dtype)
            return whole.to(input.device).bernoulli_(1 - p).div_(1 - p)

        mask = self._part(draw, input.shape)
        return input.mul_(mask) if name == "dropout_" else input * mask
