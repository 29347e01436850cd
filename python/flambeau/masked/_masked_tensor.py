"""MaskedTensor: a tensor with a mask that says which of its elements are there.

The tensor of the core is the data, which autograd sees; elements that are not there take part in
no reduction, so that their gradients are zero.
"""

from __future__ import annotations

import warnings

import flambeau
from flambeau import _C
from flambeau._operators._kinds import Kind, among, body_of, kind_of, replaced, rule_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]

# The class, of which type checkers know too much: what is an attribute there is a property here.
_Tensor: Any = flambeau.Tensor


def _check(data: Any, mask: Any) -> None:
    if data.layout != mask.layout:
        raise TypeError("data and mask must have the same layout.")
    if mask.dtype != flambeau.bool:
        raise TypeError("mask must have dtype bool.")
    if data.dim() != mask.dim():
        raise ValueError("data.dim() must equal mask.dim()")
    if data.size() != mask.size():
        raise ValueError("data.size() must equal mask.size()")


class MaskedTensor(_Tensor):
    """A tensor of which only the elements are there where a mask is true."""

    _mask: Tensor

    @staticmethod
    def __new__(cls: type, data: Any, mask: Any, requires_grad: bool = False) -> Any:
        if is_masked_tensor(data) or not isinstance(data, _Tensor):
            raise TypeError("data must be a Tensor")
        if is_masked_tensor(mask) or not isinstance(mask, _Tensor):
            raise TypeError("mask must be a Tensor")
        if data.requires_grad:
            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. "
                "To avoid this, you can use data.detach().clone()",
                UserWarning,
                stacklevel=2,
            )
        _check(data, mask)
        made = _over(data.detach().clone(), mask.clone())
        return made.requires_grad_(requires_grad)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _call(func, args, kwargs or {})

    def get_data(self) -> Any:
        """All elements, also those that are not there."""
        with _C.DisableTorchFunctionSubclass():
            return self.as_subclass(_Tensor)

    def get_mask(self) -> Any:
        """Which elements are there."""
        return self._mask

    @property
    def _masked_data(self) -> Any:
        return self.get_data()

    def to_tensor(self, value: Any) -> Any:
        """A plain tensor, with `value` for the elements that are not there."""
        return _dense(self.get_data()).masked_fill(~_dense(self._mask), value)

    @property
    def grad(self) -> Any:
        with _C.DisableTorchFunctionSubclass():
            found = _Tensor.grad.__get__(self)
        return None if found is None else _over(found, self._mask)

    def tolist(self) -> Any:
        raise RuntimeError(".tolist() is not supported for tensor subclasses, got MaskedTensor")

    def numpy(self, *, force: bool = False) -> Any:
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def __len__(self) -> int:
        return len(self.get_data())

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        data, mask = _dense(self.get_data().detach()).tolist(), _dense(self._mask).tolist()
        if self._mask.dim() == 0:
            return f"MaskedTensor({_shown(data) if mask else '--'}, {mask})"
        lines = "\n".join(f"  {line}" for line in _lines(data, mask))
        return f"MaskedTensor(\n{lines}\n)"


def _shown(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _lines(data: Any, mask: Any) -> list[str]:
    """The lines of one level of brackets."""
    if not data or not isinstance(data[0], list):
        items = [_shown(x) if there else f"{'--':>8}" for x, there in zip(data, mask)]
        return [f"[{', '.join(items)}]"]
    lines = ["["]
    for index, (x, there) in enumerate(zip(data, mask)):
        inner = _lines(x, there)
        inner[-1] += "," if index + 1 < len(data) else ""
        lines += [f"  {line}" for line in inner]
    return [*lines, "]"]


def _dense(tensor: Any) -> Any:
    return tensor if tensor.layout is flambeau.strided else tensor.to_dense()


def _over(data: Any, mask: Any) -> Any:
    made = data.as_subclass(MaskedTensor)
    made._mask = mask
    return made


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether obj is a MaskedTensor."""
    return isinstance(obj, MaskedTensor)


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> Any:
    """A MaskedTensor of copies of data and mask, without history: a leaf."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Any, mask: Any) -> Any:
    """A MaskedTensor over data, through which gradients reach it."""
    _check(data, mask)
    return _over(data, mask)


# Operations ---------------------------------------------------------------------------------------


def _map(value: Any, part: str) -> Any:
    """The data or the masks in place of masked tensors."""
    return replaced(value, MaskedTensor, lambda x: x._mask if part == "mask" else x.get_data())


def _paired(data: Any, mask: Any) -> Any:
    if isinstance(data, (list, tuple)):
        return type(data)(_over(x, y) for x, y in zip(data, mask))
    return _over(data, mask)


def _call(func: Any, args: Any, kwargs: Any) -> Any:
    kind = kind_of(func)
    if (body := body_of(func)) is not None and kind.name != "grad":
        return body(*args, **kwargs)
    with _C.DisableTorchFunctionSubclass():
        if not kind.has("op") and (kind.name in _OF_TENSOR or not kind.name.startswith("__")):
            return _asked(func, kind.name, args, kwargs)
        return _computed(func, kind, args, kwargs)


_OF_TENSOR = ("__get__", "__set__")


def _asked(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """What is no operation: of the tensor itself, or about gradients."""
    if name not in ("grad", "backward"):
        return func(*args, **kwargs)
    data = [_map(value, "data") for value in args]
    return _gradients(func, data[0], *args[1:]) if name == "grad" else func(*data, **kwargs)


def _computed(func: Any, kind: Kind, args: Any, kwargs: Any) -> Any:
    name = kind.name
    masked = among((*args, *kwargs.values()), MaskedTensor)
    named = {key: _map(value, "data") for key, value in kwargs.items()}
    data = [_map(value, "data") for value in args]
    if (rule := rule_for(kind, globals())) is not None:
        return rule(func, args, data)
    if kind.has("reduces") and (name in flambeau.masked.__all__ or name in ("all", "any")):
        return _reduced(name, masked[0], data[1:], named)
    if kind.has("along") and name in flambeau.masked.__all__:
        kept = masked[0]._mask
        return _over(getattr(flambeau.masked, name)(*data, **named, mask=kept), kept)
    if kind.has("elementwise", "creates"):
        return _pointwise(func, kind, masked, args, data, named)
    if kind.has("view", "moves") or name == "__getitem__":
        marks = {key: _map(value, "mask") for key, value in kwargs.items()}
        return _paired(func(*data, **named), func(*(_map(x, "mask") for x in args), **marks))
    raise TypeError(f"{name}: not implemented for masked tensors")


def rule_item(func: Any, args: Any, data: Any) -> Any:
    return func(*data)


def rule_where(func: Any, args: Any, data: Any) -> Any:
    sides = [x._mask if isinstance(x, MaskedTensor) else x for x in args]
    return _over(func(*data), func(data[0], sides[1], sides[2]))


def _pointwise(func: Any, kind: Kind, masked: Any, args: Any, data: Any, named: Any) -> Any:
    mask = masked[0]._mask
    if any(not flambeau.equal(_dense(mask), _dense(other._mask)) for other in masked[1:]):
        raise ValueError(
            "Input masks must match. If you need support for this, please open an issue on Github."
        )
    if mask.layout is not flambeau.strided and not kind.writes:
        # Of a sparse tensor only what it stores is there, so that any function will do.
        dense = func(*(_dense(x) if isinstance(x, _Tensor) else x for x in data), **named)
        return _over(dense.sparse_mask(mask), mask)
    result = func(*data, **named)
    return args[0] if kind.writes else _over(result, mask.expand(result.shape))


def _gradients(func: Any, outputs: Any, inputs: Any, *rest: Any) -> Any:
    """torch.autograd.grad: gradients of masked tensors are masked."""
    targets = [inputs] if isinstance(inputs, _Tensor) else list(inputs)
    return tuple(
        _over(found, target._mask)
        if isinstance(target, MaskedTensor) and found is not None
        else found
        for target, found in zip(targets, func(outputs, inputs, *rest), strict=True)
    )


def _reduced(name: str, tensor: Any, args: Any, kwargs: Any) -> Any:
    mask, values = _dense(tensor._mask), _dense(tensor.get_data())
    dim = kwargs.get("dim", args[0] if args else None)
    keepdim = kwargs.get("keepdim", False)
    there = mask.any() if dim is None else mask.any(dim, keepdim)
    if name in ("all", "any"):
        filled = values.bool().masked_fill(~mask, name == "all")
        return _over(getattr(filled, name)(*args, **kwargs), there)
    return _over(getattr(flambeau.masked, name)(values, *args, **kwargs, mask=mask), there)
