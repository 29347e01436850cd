"""Nested tensors of the strided layout: a batch of tensors of one rank and any sizes.

The tensor of the core is a flat buffer with all elements, one component after the other. An
operation runs on the components and packs the results.
"""

from __future__ import annotations

import math

import flambeau
from flambeau._operators._kinds import Kind
from flambeau.nested._base import Nested

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from flambeau import Tensor


class StridedNestedTensor(Nested):
    """A batch of tensors of any sizes. torch.nested.nested_tensor makes them."""

    _sizes: list[tuple[int, ...]]

    @staticmethod
    def _over(buffer: Tensor, sizes: Sequence[Sequence[int]]) -> StridedNestedTensor:
        made = buffer.as_subclass(StridedNestedTensor)
        made._sizes = [tuple(size) for size in sizes]
        return made

    def _like(self, values: Tensor) -> StridedNestedTensor:
        """Other values over the same components."""
        return StridedNestedTensor._over(values, self._sizes)

    @staticmethod
    def _rules() -> dict[str, Any]:
        return globals()

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """The components."""
        if dim % max(self.dim(), 1) != 0:
            raise RuntimeError(
                f"NestedTensor can only be unbound along dimension 0 got dimension {dim} instead."
            )
        buffer, start, components = self.values(), 0, []
        for size in self._sizes:
            count = math.prod(size)
            components.append(buffer[start : start + count].view(size))
            start += count
        return tuple(components)

    def dim(self) -> int:
        return 1 + (len(self._sizes[0]) if self._sizes else 0)

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Internal error: NestedTensorImpl doesn't support sizes. Please file an issue."
        )

    def size(self, dim: int | None = None) -> Any:
        if dim is None:
            return self.shape
        place = dim % self.dim()
        if place == 0:
            return len(self._sizes)
        found = {size[place - 1] for size in self._sizes}
        if len(found) != 1:
            raise RuntimeError(f"Given dimension {place} is irregular and does not have a size.")
        return found.pop()

    def numel(self) -> int:
        return self.values().numel()

    def _nested_tensor_size(self) -> Tensor:
        return flambeau.tensor(self._sizes, dtype=flambeau.int64)

    def _nested_tensor_strides(self) -> Tensor:
        strides = [each.stride() for each in self.detach().unbind()]
        return flambeau.tensor(strides, dtype=flambeau.int64)

    def _nested_tensor_storage_offsets(self) -> Tensor:
        counts = flambeau.tensor([math.prod(size) for size in self._sizes], dtype=flambeau.int64)
        return counts.cumsum(0) - counts

    def share_memory_(self) -> Any:
        """Moves the memory of all components to where other processes can map it."""
        self.values().share_memory_()
        return self

    def is_shared(self) -> bool:
        return self.values().is_shared()

    def is_contiguous(self, memory_format: Any = flambeau.contiguous_format) -> bool:
        return True

    def __reduce_ex__(self, protocol: Any) -> Any:
        from flambeau import _utils

        layout = (self._nested_tensor_strides(), self._nested_tensor_storage_offsets())
        held = (self.values().detach(), self._nested_tensor_size(), *layout)
        return _utils._rebuild_nested_tensor, held

    def contiguous(self, memory_format: Any = flambeau.contiguous_format) -> Any:
        return self

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        shown = [repr(x.detach().requires_grad_(self.requires_grad)) for x in self.unbind()]
        body = ",\n".join("  " + text.replace("\n", "\n  ") for text in shown)
        end = ""
        if self.grad_fn is not None:
            end = f", grad_fn={str(self.grad_fn).split(' object')[0]}>"
        elif self.requires_grad:
            end = ", requires_grad=True"
        return f"nested_tensor([\n{body}\n]{end})"


def from_components(components: Sequence[Tensor]) -> StridedNestedTensor:
    """A nested tensor of these, with their history."""
    buffer = flambeau.cat([x.reshape(-1) for x in components]) if components else flambeau.empty(0)
    return StridedNestedTensor._over(buffer, [x.shape for x in components])


# Arguments that are dimensions, counted with the batch.
_DIM_NAMES = ("dim", "dim0", "dim1", "axis0", "axis1", "start_dim", "end_dim")


def _component_dim(name: str, dim: Any, rank: int) -> Any:
    if not isinstance(dim, int):
        raise RuntimeError("NestedTensor only allows reduction of a single dimension for now.")
    place = dim % (rank + (name == "unsqueeze"))
    if place == 0:
        raise RuntimeError(f"{name}: NestedTensor does not support dimension 0, the batch")
    return place - 1


def by_kind(kind: Kind, func: Any, args: Any, kwargs: Any) -> Any:
    """What has no rule runs on each component, if the registry says so of it."""
    return _each(kind, func, args, kwargs) if kind.has("takes_nested") else NotImplemented


def rule_get(func: Any, self: Any, *args: Any) -> Any:
    name = getattr(getattr(func, "__self__", None), "__name__", "")
    if name in ("mT", "mH"):
        return from_components([getattr(x, name) for x in self.unbind()])
    result = func(self, *args)
    if not isinstance(result, flambeau.Tensor) or result is self:
        return result
    return self._like(result)


def rule_adjoint(func: Any, nested: Any) -> Any:
    return from_components([x.mH for x in nested.unbind()])


def rule_is_same_size(func: Any, first: Any, other: Any) -> bool:
    return first.is_nested and other.is_nested and first._sizes == other._sizes


def rule_sum(func: Any, nested: Any, *args: Any, **kwargs: Any) -> Any:
    if not args and not kwargs:
        return func(nested.values())
    given = dict(zip(("dim", "keepdim"), args)) | kwargs
    if given.get("dim") not in (-1, nested.dim() - 1, [-1], (-1,)) or not given.get("keepdim"):
        raise RuntimeError("NestedTensor can only be reduced across the last dimension, kept")
    return from_components([func(x, -1, True) for x in nested.unbind()])


def _each(kind: Kind, func: Any, args: Any, kwargs: Any) -> Any:
    """Runs an operation on the components of all nested arguments."""
    name, args = kind.name, list(args)
    nested = [x for x in (*args, *kwargs.values()) if isinstance(x, StridedNestedTensor)]
    if not nested:
        raise NotImplementedError(f"{name}: not implemented for lists of nested tensors")
    first = nested[0]
    if not kind.has("elementwise"):
        given = dict(zip(kind.parameters, args)) | kwargs
        for key in [key for key in kind.parameters if key in _DIM_NAMES]:
            dim = given[key] if key in given else kind.default(key)
            given[key] = _component_dim(name, dim, first.dim())
            args, kwargs = [args[0]], {k: given[k] for k in given if k != kind.parameters[0]}
    parts = {id(arg): arg.unbind() for arg in nested}
    for other in nested[1:]:
        if len(other._sizes) != len(first._sizes) or (
            kind.has("elementwise") and other._sizes != first._sizes
        ):
            raise RuntimeError(f"{name} does not support broadcasting when given a NestedTensor")
    product = name in ("matmul", "bmm")
    rank = first.dim() if product else 1
    for arg in (
        (*args, *kwargs.values())
        if product or (kind.has("elementwise") and not kind.has("converts"))
        else ()
    ):
        if isinstance(arg, flambeau.Tensor) and id(arg) not in parts and arg.dim() >= rank:
            parts[id(arg)] = _matrices_of(name, arg, first, product)
    if product:
        func = flambeau.matmul

    def component(arg: Any, index: int) -> Any:
        return parts[id(arg)][index] if id(arg) in parts else arg

    results = [
        func(*(component(a, i) for a in args), **{k: component(a, i) for k, a in kwargs.items()})
        for i in range(len(first._sizes))
    ]
    if kind.writes:
        return args[0]
    if results and all(mine is other for mine, other in zip(results, parts[id(first)])):
        return first  # a conversion to what it is already
    if results and isinstance(results[0], (tuple, list)):
        return tuple(from_components(items) for items in zip(*results, strict=True))
    return from_components(results)


def _matrices_of(
    name: str, dense: Tensor, nested: StridedNestedTensor, product: bool
) -> tuple[Tensor, ...]:
    """The matrices of a batch, each for a component of a nested tensor."""
    if not product:
        raise RuntimeError(
            "Expected both self and other to be nested, but got a nested self and non-nested "
            f"other of shape {list(dense.shape)}"
        )
    count = len(nested._sizes)
    if dense.dim() > nested.dim() or dense.shape[0] != count:
        raise RuntimeError(
            f"{name}: expected a batch of {count} matrices beside a nested tensor of dimension "
            f"{nested.dim()}, but got shape {list(dense.shape)}"
        )
    return dense.unbind()


def rule_narrow(func: Any, nested: StridedNestedTensor, dim: int, start: Any, length: int) -> Any:
    """Some of the components."""
    if dim != 0:
        raise RuntimeError(f"narrow(): only dim=0 supported for nested tensors, but got: {dim}")
    count, start = len(nested._sizes), int(start)
    if not 0 <= start <= start + length <= count:
        raise RuntimeError(
            f"narrow(): start ({start}) + length ({length}) exceeds dimension size ({count})."
        )
    ends = [0, *(nested._nested_tensor_storage_offsets()[1:].tolist()), nested.numel()]
    buffer = nested.values()[ends[start] : ends[start + length]]
    return StridedNestedTensor._over(buffer, nested._sizes[start : start + length])


def rule_cat(func: Any, tensors: Sequence[StridedNestedTensor], dim: int = 0) -> Any:
    """The components of all, one after the other, or joined with those of the same place."""
    for tensor in tensors:
        if not isinstance(tensor, StridedNestedTensor):
            raise RuntimeError("Expected each tensor in given list to be nested.")
    batches = [tensor.unbind() for tensor in tensors]
    if dim % tensors[0].dim() == 0:
        return from_components([component for batch in batches for component in batch])
    place = _component_dim("cat", dim, tensors[0].dim())
    return from_components([flambeau.cat(each, place) for each in zip(*batches, strict=True)])


rule_vstack = rule_cat


def rule_hstack(func: Any, tensors: Sequence[StridedNestedTensor]) -> Any:
    return rule_cat(func, tensors, 1)


rule_column_stack = rule_hstack


def rule_dstack(func: Any, tensors: Sequence[StridedNestedTensor]) -> Any:
    return rule_cat(func, tensors, 2)


def rule_select(func: Any, nested: StridedNestedTensor, dim: int, index: int) -> Any:
    if dim % nested.dim() == 0:
        return rule_getitem(func, nested, index)
    return from_components([x.select(dim % nested.dim() - 1, index) for x in nested.unbind()])


def rule_getitem(func: Any, nested: StridedNestedTensor, index: Any) -> Any:
    items = index if isinstance(index, tuple) else (index,)
    count = len(nested._sizes)
    if not isinstance(items[0], int):
        raise NotImplementedError("slices of the batch of a nested tensor are not implemented")
    if not -count <= items[0] < count:
        raise IndexError(f"index {items[0]} is out of bounds for dimension 0 with size {count}")
    component = nested.unbind()[items[0]]
    return component[items[1:]] if len(items) > 1 else component


def rule_reshape(func: Any, nested: StridedNestedTensor, *sizes: Any) -> Any:
    name = func.__name__
    shape = list(sizes[0]) if isinstance(sizes[0], (list, tuple)) else list(sizes)
    if shape[0] != len(nested._sizes):
        raise RuntimeError(
            f"{name}: For now nested {name} cannot change or infer the implicit batch dimension"
        )
    views = []
    for component in nested.unbind():
        # -1 keeps the size that the component has there, and is computed behind its last dimension.
        old = component.shape
        wanted = [old[i] if s == -1 and i < len(old) else s for i, s in enumerate(shape[1:])]
        views.append(component.reshape(wanted))
    return from_components(views)


rule_view = rule_reshape


def rule_reshape_as(func: Any, nested: Any, other: Any) -> Any:
    views = zip(nested.unbind(), other.unbind(), strict=True)
    return from_components([x.reshape(y.shape) for x, y in views])
