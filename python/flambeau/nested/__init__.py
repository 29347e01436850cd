"""Nested tensors: batches of tensors that differ in their sizes.

The layout torch.jagged packs tensors that differ in one size; most operations take it. The layout
torch.strided holds tensors of any sizes, and runs an operation on one after the other.
"""

from __future__ import annotations

import flambeau
from flambeau.nested._jagged import NestedTensor
from flambeau.nested._strided import StridedNestedTensor, from_components

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from flambeau import Tensor

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]


class _JaggedLayout:
    """torch.jagged, the layout of nested tensors that differ in one size."""

    def __repr__(self) -> str:
        return "torch.jagged"

    def __reduce__(self) -> str:
        return "jagged"


jagged: Any = _JaggedLayout()


def _ragged_dim(shapes: Sequence[Any]) -> int:
    """The dimension of components in which they differ, the first if they do not."""
    if len({len(shape) for shape in shapes}) != 1:
        raise RuntimeError(
            "When constructing a nested tensor, all tensors in list must have the same number of "
            f"dimensions, but got {[len(shape) for shape in shapes]}"
        )
    different = [d for d, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1]
    if len(different) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note "
            "that the jagged layout only represents shapes of the form (B, *_0, ..., *_N-1, j0) "
            f"with a single ragged dimension, but components differ in dimensions {different}"
        )
    return different[0] if different else 0


def _pack(components: list[Tensor], ragged: int) -> NestedTensor:
    """Components as one jagged tensor, with their history."""
    place = ragged - 1
    lengths = [0] + [x.shape[place] for x in components]
    device = components[0].device
    offsets = flambeau.tensor(lengths, dtype=flambeau.int64, device=device).cumsum(0)
    return NestedTensor._over(flambeau.cat(components, place), offsets, ragged=ragged)


def _made(components: list[Tensor], layout: Any) -> Any:
    if layout is None or layout is flambeau.strided:
        for index, component in enumerate(components):
            if component.dim() != components[0].dim():
                raise RuntimeError(
                    "All Tensors given to nested_tensor must have the same dimension. Found "
                    f"dimension {component.dim()} for Tensor at index {index} and dimension "
                    f"{components[0].dim()} for Tensor at index 0."
                )
        return from_components(components)
    if layout is not jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    if not components:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    if len({x.dtype for x in components}) != 1:
        raise RuntimeError(
            "When constructing a nested tensor, all tensors in list must have the same dtype"
        )
    if components[0].dim() == 0:
        raise RuntimeError("Cannot construct a nested tensor with the jagged layout from numbers")
    return _pack(components, _ragged_dim([x.shape for x in components]) + 1)


def nested_tensor(
    tensor_list: Sequence[Any],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """A nested tensor of copies of tensors, without their history: a leaf.

    Args:
        tensor_list: tensors, or lists of numbers.
        dtype, device: those of the result, by default those of the tensors.
        layout: torch.strided, the default, or torch.jagged.
        requires_grad: whether it wants a gradient.
        pin_memory: whether its memory is pinned.
    """
    if isinstance(tensor_list, flambeau.Tensor) or not isinstance(tensor_list, (list, tuple)):
        raise TypeError(
            "Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor"
        )
    given = [
        x.detach() if isinstance(x, flambeau.Tensor) else flambeau.tensor(x) for x in tensor_list
    ]
    if dtype is None and given and (layout is None or layout is flambeau.strided):
        dtype = given[0].dtype
    components = [x.to(dtype=dtype or x.dtype, device=device or x.device) for x in given]
    made = _made(components, layout)
    if pin_memory:
        made = made.pin_memory()
    return made.requires_grad_(requires_grad)


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> Any:
    """A nested tensor of tensors, through which gradients reach them.

    Args:
        ts: a list of tensors, or a tensor whose first dimension is the batch.
        dtype, device: those of the result, by default those of the tensors.
        layout: torch.strided, the default, or torch.jagged.
    """
    if isinstance(ts, (NestedTensor, StridedNestedTensor)):
        if ts.layout is not (layout or flambeau.strided):
            raise RuntimeError(
                "as_nested_tensor(): Converting between nested tensor layouts is not supported"
            )
        return ts.to(dtype=dtype or ts.dtype, device=device or ts.device)
    if not isinstance(ts, (flambeau.Tensor, list, tuple)):
        raise TypeError(
            "as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of "
            f"tensors, got {type(ts)}"
        )
    if any(not isinstance(x, flambeau.Tensor) for x in ts):
        raise TypeError("as_nested_tensor(): Expected list / tuple of tensors")
    components = [x.to(dtype=dtype or x.dtype, device=device or x.device) for x in ts]
    return _made(components, layout)


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Any:
    """A jagged tensor over packed values, which it shares.

    Args:
        values: the values of all components, one after the other.
        offsets: where components begin, and at its end where the last one ends.
        lengths: the lengths of components; without offsets, these follow from it, with offsets,
            what lies behind a component's length belongs to none.
        jagged_dim: the dimension of the result that differs, by default 1.
        min_seqlen, max_seqlen: not needed.
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError(
                "nested_tensor_from_jagged(): At least one of offsets or lengths is required."
            )
        offsets = flambeau.nn.functional.pad(lengths.cumsum(0), (1, 0))
        lengths = None
    return NestedTensor._over(values, offsets, lengths, 1 if jagged_dim is None else jagged_dim)


def narrow(tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = None) -> Any:
    """A nested tensor of a part of each row of a batch, which shares its memory where it can.

    Args:
        tensor: the batch.
        dim: the dimension to cut, 1.
        start, length: where parts begin and how long they are: tensors with one for each row of
            the batch, or numbers.
        layout: torch.jagged; torch.strided, the default, takes numbers only.
    """
    if layout is None or layout is flambeau.strided:
        if not (isinstance(start, int) and isinstance(length, int)):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        return from_components(list(tensor.narrow(dim, start, length)))
    if layout is not jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested narrow: {layout}")
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    batch, rows = tensor.shape[:2]
    starts, lengths = (
        x.to(tensor.device, flambeau.int64)
        if isinstance(x, flambeau.Tensor)
        else flambeau.full((batch,), x, dtype=flambeau.int64, device=tensor.device)
        for x in (start, length)
    )
    # Offsets into all rows of the batch; the last one is where the last part ends.
    begins = starts + flambeau.arange(batch, device=tensor.device) * rows
    offsets = flambeau.cat([begins, (begins[-1:] + lengths[-1:])])
    return NestedTensor._over(tensor.flatten(0, 1), offsets, lengths)


def masked_select(tensor: Tensor, mask: Tensor) -> Any:
    """The elements, row by row of a matrix, where a mask is true, as a jagged tensor."""
    if tensor.layout != flambeau.strided:
        raise RuntimeError(
            f"torch.nested.masked_select requires a strided tensor, given {tensor.layout}"
        )
    if mask.layout != flambeau.strided:
        raise RuntimeError(
            f"torch.nested.masked_select requires a strided mask, given: {mask.layout}"
        )
    values = tensor.masked_select(mask)
    wide = mask.expand(tensor.shape) if tensor.dim() == 1 else mask.expand_as(tensor)
    counts = (wide if wide.dim() == 1 else wide.flatten(1).sum(1)).long()
    return NestedTensor._over(values, flambeau.nn.functional.pad(counts.cumsum(0), (1, 0)))


def to_padded_tensor(input: Any, padding: float, output_size: Any = None) -> Tensor:
    """A tensor in which the components of a nested one are filled up with `padding`.

    Args:
        input: the nested tensor.
        padding: what fills up.
        output_size: the sizes of the result, by default those of the largest components.
    """
    if isinstance(input, NestedTensor):
        if input._lengths is not None:
            raise RuntimeError("to_padded_tensor(): not supported for nested tensors with holes")
        from flambeau.nested._jagged_rules import padded

        length = None if output_size is None else output_size[input._ragged_idx]
        return padded(input, padding, length)
    if not isinstance(input, StridedNestedTensor):
        raise NotImplementedError("to_padded_tensor: the input is not a nested tensor")
    components = input.unbind()
    if not components:
        return flambeau.empty(0, dtype=input.dtype, device=input.device)
    if not any(component.numel() for component in components):
        raise RuntimeError(
            "to_padded_tensor: at least one constituent tensor should have non-zero numel"
        )
    largest = [max(sizes) for sizes in zip(*input._sizes, strict=True)]
    shape = largest if output_size is None else list(output_size)[1:]
    if any(have > wanted for have, wanted in zip(largest, shape, strict=True)):
        raise RuntimeError("Value in output_size is less than NestedTensor padded size.")
    rows = []
    for component in components:
        gaps = [(0, w - h) for h, w in zip(component.shape, shape, strict=True)]
        flat = [side for pair in reversed(gaps) for side in pair]
        rows.append(flambeau.nn.functional.pad(component, flat, value=padding))
    return flambeau.stack(rows)
