"""NestedTensor: a batch of tensors that differ in one size, packed one after the other.

The tensor of the core is the packed values, whose dimensions are those of the nested tensor without
the batch: dimension d of the nested tensor is d - 1 of the values, and the one that differs, the
ragged one, counts all rows of all components. `offsets` says where components begin; `lengths`, if
there are any, how many of the rows behind each offset belong to it. Autograd sees the values only.
"""

from __future__ import annotations

import itertools

import flambeau
from flambeau.nested._base import Nested

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from flambeau import Tensor

_numbers = itertools.count(1)


class NestedInt(int):
    """The size of a ragged dimension. It equals only itself, and stands for -1 in a shape."""

    number: int

    def __new__(cls) -> NestedInt:
        made = super().__new__(cls, -1)
        made.number = next(_numbers)
        return made

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    # It is at least 2 to whoever asks, as sizes that are not known are.
    def __ge__(self, other: Any) -> bool:
        return self is other or other <= 2

    def __gt__(self, other: Any) -> bool:
        return self is not other and other < 2

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __hash__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        return f"j{self.number}"

    __str__ = __repr__

    def __reduce__(self) -> Any:
        return NestedInt, ()

    def _no_number(self, *_: Any) -> Any:
        raise RuntimeError(f"{self}: the size of a ragged dimension is no number to compute with")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = _no_number
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = _no_number
    __pow__ = __rpow__ = __abs__ = __int__ = __float__ = _no_number


def ragged_size(offsets: Tensor, lengths: Tensor | None) -> NestedInt:
    """The size that belongs to these offsets: nested tensors that share them agree in it."""
    key: Any = offsets if lengths is None else lengths
    if not hasattr(key, "_nested_int"):
        key._nested_int = NestedInt()
    return key._nested_int


class NestedTensor(Nested):
    """A batch of tensors that differ in one size. torch.nested makes them."""

    _offsets: Tensor
    _lengths: Tensor | None
    _ragged_idx: int

    @staticmethod
    def _over(
        values: Tensor, offsets: Tensor, lengths: Tensor | None = None, ragged: int = 1
    ) -> NestedTensor:
        made = values.as_subclass(NestedTensor)
        if offsets.device != values.device:
            moved: Any = offsets.to(values.device)
            moved._nested_int = ragged_size(offsets, lengths)
            offsets = moved
        made._offsets, made._lengths, made._ragged_idx = offsets, lengths, ragged
        return made

    def _like(self, values: Tensor, ragged: int | None = None) -> NestedTensor:
        """Other values over the same components."""
        ragged = self._ragged_idx if ragged is None else ragged
        return NestedTensor._over(values, self._offsets, self._lengths, ragged)

    @staticmethod
    def _rules() -> dict[str, Any]:
        from flambeau.nested import _jagged_rules

        return vars(_jagged_rules)

    # What it is made of
    def offsets(self) -> Tensor:
        """Where each component begins in the values; at the end, where the last one ends."""
        return self._offsets

    def lengths(self) -> Tensor | None:
        """How many rows belong to each component, where that is not all of them up to the next."""
        return self._lengths

    def _component_lengths(self) -> Tensor:
        return self._offsets.diff() if self._lengths is None else self._lengths

    @property
    def _maybe_max_seqlen(self) -> int:
        return int(self._component_lengths().max())

    @property
    def _maybe_min_seqlen(self) -> int:
        return int(self._component_lengths().min())

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """The components."""
        if dim not in (0, -self.dim()):
            raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
        values = self.values()
        starts, lengths = self._offsets[:-1].tolist(), self._component_lengths().tolist()
        place = self._ragged_idx - 1
        return tuple(values.narrow(place, s, n) for s, n in zip(starts, lengths, strict=True))

    # Sizes
    @property
    def shape(self) -> Any:
        sizes: list[Any] = list(self.values().shape)
        sizes[self._ragged_idx - 1] = ragged_size(self._offsets, self._lengths)
        return flambeau.Size([self._offsets.shape[0] - 1, *sizes])

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        return self.values().dim() + 1

    def numel(self) -> int:
        if self._lengths is None:
            return self.values().numel()
        rows = self.values().shape[self._ragged_idx - 1]
        return self.values().numel() // max(rows, 1) * int(self._lengths.sum())

    @property
    def layout(self) -> Any:
        from flambeau.nested import jagged

        return jagged

    def is_contiguous(self, memory_format: Any = flambeau.contiguous_format) -> bool:
        return self._lengths is None and self.values().is_contiguous()

    def contiguous(self, memory_format: Any = flambeau.contiguous_format) -> NestedTensor:
        """The same without holes, the ragged dimension behind the batch in memory."""
        if self._lengths is None:
            return self._like(self.values().contiguous())
        from flambeau.nested import _pack

        return _pack(list(self.unbind()), self._ragged_idx)

    def __len__(self) -> int:
        return self._offsets.shape[0] - 1

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.unbind())

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        shape = ", ".join(map(str, self.shape))
        grad = ""
        if self.grad_fn is not None:
            grad = f", grad_fn={self.grad_fn}"
        elif self.requires_grad:
            grad = ", requires_grad=True"
        return (
            f"NestedTensor(size=({shape}), offsets={self._offsets}{grad}, "
            f"contiguous={self.is_contiguous()})"
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        held = (self.values().detach(), self._offsets, self._lengths, self._ragged_idx)
        return _rebuild, (*held, self.requires_grad)

    def __deepcopy__(self, memo: Any) -> Any:
        made = self._like(self.values().detach().clone())
        memo[id(self)] = made
        return made.requires_grad_(self.requires_grad)


def _rebuild(
    values: Tensor, offsets: Tensor, lengths: Tensor | None, ragged: int, requires_grad: bool
) -> Any:
    return NestedTensor._over(values, offsets, lengths, ragged).requires_grad_(requires_grad)
