"""Operations on quantized tensors: views, choices, order, comparisons and writes; those of networks
are in `_nn_rules`. What moves integers about, or compares them, runs on the integers: the registry
says which operations do. `rule_name` is the rule of another; what has none raises, as in PyTorch.

Rules run with __torch_function__ off: to the core a quantized tensor is its integers.
"""

from __future__ import annotations

import flambeau
from flambeau import _C
from flambeau._operators._kinds import (
    Kind,
    among,
    body_of,
    kind_named,
    kind_of,
    replaced,
    rule_for,
)
from flambeau._quantized._quantizers import INTS, KIND_NAMES, PerChannel, PerTensor
from flambeau._quantized._tensor import QuantizedTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor


def plain(value: Any) -> Any:
    """The integers in place of quantized tensors, in lists too."""
    return replaced(value, QuantizedTensor, QuantizedTensor._ints)


def first_of(args: Any, kwargs: Any) -> Any:
    """The first quantized tensor among arguments."""
    return next(iter(among((*args, *kwargs.values()), QuantizedTensor)), None)


def refused(name: str, args: Any = (), kwargs: Any = None) -> Exception:
    """The error of an operation that there is not for quantized tensors."""
    first = first_of(args, kwargs or {})
    kind = "" if first is None else KIND_NAMES[first.dtype]
    if (other := _unpromoted(kind_named(name), args)) is not None:
        return RuntimeError(
            "promoteTypes with quantized numbers is not handled yet: "
            f"{name} got {kind} and {other}; dequantize() the tensor first"
        )
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the 'QuantizedCPU' backend: there is no "
        f"such operation on quantized tensors ({kind}); dequantize() them first"
    )


def _unpromoted(kind: Kind, args: Any) -> str | None:
    """What else an operation computes with, if it would have to be promoted."""
    if kind.has("gives_bool") and not kind.has("takes_quantized"):
        return None
    numbers = "other" in kind.parameters[:2]
    for other in args if kind.has("elementwise") or kind.writes else ():
        if isinstance(other, flambeau.Tensor) and not isinstance(other, QuantizedTensor):
            if other.is_floating_point() or numbers:
                return str(other.dtype)
        elif numbers and isinstance(other, (int, float, complex)):
            return type(other).__name__
    return None


def same(func: Any, args: Any, kwargs: Any) -> Any:
    """Runs on the integers; of the results, those that are integers of the same kind stand for
    numbers in the same way."""
    first = first_of(args, kwargs)
    kind = first._ints().dtype
    result = func(*map(plain, args), **{name: plain(value) for name, value in kwargs.items()})

    def over(ints: Tensor) -> Tensor:
        return QuantizedTensor._over(ints, first._quantizer) if ints.dtype is kind else ints

    return replaced(result, flambeau.Tensor, over)


def _reshaped(func: Any, args: Any, kwargs: Any) -> Any:
    first = first_of(args, kwargs)
    if isinstance(first._quantizer, PerTensor):
        return same(func, args, kwargs)
    old = tuple(first._ints().shape)
    result = func(*map(plain, args), **{name: plain(value) for name, value in kwargs.items()})
    quantizer = first._quantizer.reshaped(old, tuple(result.shape))
    return QuantizedTensor._over(result, quantizer.on(result.device))


def _part(func: Any, args: Any, kwargs: Any) -> Any:
    first = first_of(args, kwargs)
    quantizer = first._quantizer
    if isinstance(quantizer, PerTensor):
        return same(func, args, kwargs)
    ints = first._ints()
    count = quantizer.scales.numel()
    if not 0 <= quantizer.axis < ints.dim() or ints.shape[quantizer.axis] != count:
        raise RuntimeError("the channels of a tensor were lost when its shape was changed")
    # The same part of a tensor that says to which channel elements belong.
    strides = [int(dim == quantizer.axis) for dim in range(ints.dim())]
    channels = flambeau.arange(count).as_strided(ints.shape, strides)
    index = args[1:]
    found = func(ints, *index, **kwargs)
    where = func(channels, *index, **kwargs)
    if isinstance(found, flambeau.Tensor):
        return QuantizedTensor._over(found, quantizer.indexed(where, count))
    pairs = zip(found, where, strict=True)
    return type(found)(QuantizedTensor._over(x, quantizer.indexed(w, count)) for x, w in pairs)


def rule_get(func: Any, input: QuantizedTensor, *rest: Any) -> Any:
    """An attribute. Those that are tensors, as T is, are views."""
    found = func(input, *rest)
    if not isinstance(found, flambeau.Tensor) or found.dtype is not input._ints().dtype:
        return found
    if isinstance(input._quantizer, PerChannel) and not _in_order(found):
        raise RuntimeError("Setting strides is possible only on uniformly quantized tensor")
    return QuantizedTensor._over(found, input._quantizer)


def rule_getitem(func: Any, input: Any, index: Any) -> Any:
    if not isinstance(input, QuantizedTensor):
        raise refused("index", (input, index))
    if isinstance(input._quantizer, PerChannel):
        parts = index if isinstance(index, tuple) else (index,)
        if not all(part is None or part is ... or type(part) in (int, slice) for part in parts):
            raise RuntimeError(
                "indexing with tensors is supported only for tensors that are quantized per "
                f"tensor, got {input.qscheme()}"
            )
    elif first_of((index,), {}) is not None:
        raise refused("index", (input, index))
    return _part(func, (input, index), {})


def _moved(kind: Kind, func: Any, args: Any, kwargs: Any) -> Any:
    """A view or a copy of other shape or order. What keeps the order of channels in memory keeps
    one quantizer a channel too."""
    first = first_of(args, kwargs)
    if isinstance(first._quantizer, PerTensor):
        return same(func, args, kwargs)
    if kind.has("elementwise") or kind.name == "contiguous":
        return _reshaped(func, args, kwargs)
    if kind.has("view") and not kind.has("along") and "stride" not in kind.parameters:
        found = func(*map(plain, args), **kwargs)
        results = [found] if isinstance(found, flambeau.Tensor) else found
        if all(_in_order(result) for result in results):
            whole = len(results) == 1 and results[0].numel() == first.numel()
            whole = whole and isinstance(found, flambeau.Tensor)
            return (_reshaped if whole else _part)(func, args, kwargs)
    raise RuntimeError(
        f"Setting strides is possible only on uniformly quantized tensor: {func.__name__} got "
        f"one of {first.qscheme()}"
    )


def _in_order(view: Tensor) -> bool:
    """Whether elements follow each other in memory as their indices do, each once."""
    strides = [s for s, n in zip(view.stride(), view.shape) if n != 1]
    return 0 not in strides and strides == sorted(strides, reverse=True)


def rule_broadcast_tensors(func: Any, *tensors: Any) -> Any:
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    results = func(*map(plain, given))
    made = []
    for old, new in zip(given, results, strict=True):
        if not isinstance(old, QuantizedTensor):
            made.append(new)
            continue
        if isinstance(old._quantizer, PerChannel) and old.shape != new.shape:
            raise RuntimeError("Setting strides is possible only on uniformly quantized tensor")
        made.append(QuantizedTensor._over(new, old._quantizer))
    return type(results)(made)


# Order and choices --------------------------------------------------------------------------------
def rule_max(func: Any, input: Any, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
    name, other = func.__name__, kwargs.pop("other", dim)
    if isinstance(other, flambeau.Tensor) or kwargs:
        raise refused(f"{name}imum", (input, other))
    if not isinstance(input._quantizer, PerTensor):
        raise RuntimeError(
            f"{name.title()} operator for quantized tensors only works for per tensor quantized "
            f"tensors, got {input.qscheme()}"
        )
    if dim is None and input.numel() == 0:
        raise IndexError(f"{name}(): Expected reduction dim 0 to have non-zero size.")
    return same(func, (input,) if dim is None else (input, dim, keepdim), {})


rule_min = rule_max


def _joined(func: Any, tensors: Any, *args: Any, **kwargs: Any) -> Any:
    """Tensors as one, which is quantized as the first of them is."""
    for tensor in tensors:
        if not isinstance(tensor, QuantizedTensor):
            raise refused(func.__name__, (tensors,))
        if not isinstance(tensor._quantizer, PerTensor):
            raise RuntimeError("Only per-tensor quantization is supported in 'cat'!")
    first = tensors[0]
    if any(tensor.dtype is not first.dtype for tensor in tensors):
        raise RuntimeError("All dtypes must be the same.")
    ints = [requantized(tensor, first._quantizer) for tensor in tensors]
    return QuantizedTensor._over(func(ints, *args, **kwargs), first._quantizer)


def requantized(tensor: QuantizedTensor, quantizer: Any) -> Tensor:
    """The integers by which another quantizer stands for the same numbers."""
    if tensor._quantizer == quantizer:
        return tensor._ints()
    return quantizer.quantize(tensor.dequantize(), INTS[tensor.dtype])


# Comparisons --------------------------------------------------------------------------------------
def dequantized(value: Any) -> Any:
    return value.dequantize() if isinstance(value, QuantizedTensor) else value


def rule_equal(func: Any, input: Any, other: Any) -> bool:
    both = isinstance(input, QuantizedTensor) and isinstance(other, QuantizedTensor)
    if not both or input.dtype is not other.dtype or input._quantizer != other._quantizer:
        return False
    return flambeau.equal(input._ints(), other._ints())


def rule_isclose(func: Any, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("isclose is not supported for quantized inputs.")


rule_allclose = rule_isclose


# Writes -------------------------------------------------------------------------------------------
def rule_copy(func: Any, input: Any, src: Any, non_blocking: bool = False) -> Any:
    if not isinstance(input, QuantizedTensor):
        raise RuntimeError(
            "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use "
            "dequantize to get a float Tensor from a quantized Tensor"
        )
    if input.shape != src.shape:
        raise RuntimeError(
            "Quantized copy only works with Tensors with the same shape, got "
            f"{list(input.shape)} and {list(src.shape)}"
        )
    ints, quantizer = input._ints(), input._quantizer
    if not isinstance(src, QuantizedTensor):
        if src.dtype is not flambeau.float32:
            raise RuntimeError(
                f"Quantized copy only works with kFloat as source Tensor, got {src.dtype}"
            )
        ints.copy_(quantizer.quantize(src, ints.dtype))
        return input
    if src.dtype is not input.dtype:
        raise RuntimeError(
            "Expected self.scalar_type() == src.scalar_type() to be true, but got "
            f"{input.dtype} and {src.dtype}"
        )
    if src.qscheme() is not input.qscheme():
        raise RuntimeError("Quantized Copy only works with same qscheme")
    if not input._covers_memory():
        # What it is a view of is quantized as before.
        ints.copy_(requantized(src, quantizer))
    else:
        ints.copy_(src._ints())
        input._quantizer = src._quantizer
    return input


def _placed(input: Any, value: Any) -> Tensor:
    """The integers for values that broadcast with a tensor which is quantized per tensor."""
    if not isinstance(value, flambeau.Tensor):
        value = flambeau.tensor(value, dtype=flambeau.float32, device=input.device)
    return input._per_tensor().quantize(value.to(flambeau.float32), INTS[input.dtype])


def _filled(input: Any, value: Any) -> Any:
    ints = input._ints()
    wide = flambeau.empty(ints.shape, dtype=flambeau.float32, device=ints.device).fill_(value)
    ints.copy_(input._quantizer.quantize(wide, ints.dtype))
    return input


def rule_fill(func: Any, input: Any, value: Any) -> Any:
    if not kind_of(func).writes:
        input = QuantizedTensor._over(input._ints().clone(), input._quantizer)
    return _filled(input, value)


def _check_per_tensor(name: str, input: QuantizedTensor) -> None:
    if not isinstance(input._quantizer, PerTensor):
        raise RuntimeError(
            f"{name} for quantized tensors is currently only supported for per tensor quantized "
            "tensors"
        )


def rule_masked_fill(func: Any, input: Any, mask: Any, value: Any) -> Any:
    if not isinstance(input, QuantizedTensor):
        raise refused("masked_fill", (input, mask, value))
    _check_per_tensor("masked_fill", input)
    value = dequantized(value)
    number = value.item() if isinstance(value, flambeau.Tensor) else value
    result = func(input._ints(), mask, input._quantizer.place(number, INTS[input.dtype]))
    return input if func.__name__.endswith("_") else QuantizedTensor._over(result, input._quantizer)


def rule_index_put(
    func: Any, input: Any, indices: Any, values: Any, accumulate: bool = False, **kwargs: Any
) -> Any:
    if isinstance(values, QuantizedTensor):
        raise RuntimeError("Value argument for quantized input_put should not be quantized")
    if accumulate:
        raise RuntimeError(
            "index_put for quantized tensors is currently only supported for accumulate=False"
        )
    _check_per_tensor("index_put", input)
    result = func(input._ints(), indices, _placed(input, values))
    return input if func.__name__.endswith("_") else QuantizedTensor._over(result, input._quantizer)


def rule_setitem(func: Any, input: Any, index: Any, value: Any) -> None:
    if not isinstance(input, QuantizedTensor) or first_of((index,), {}) is not None:
        raise refused("index_put_", (input, index, value))
    if isinstance(value, QuantizedTensor):
        if value.dtype is not input.dtype:
            raise RuntimeError(f"cannot write {value.dtype} into a tensor of {input.dtype}")
        value = value.dequantize()
    if isinstance(input._quantizer, PerTensor):
        func(input._ints(), index, _placed(input, value))
        return
    part = rule_getitem(flambeau.Tensor.__getitem__, input, index)
    wide = flambeau.empty(part._ints().shape, device=input.device)
    wide[...] = value
    part._ints().copy_(part._quantizer.quantize(wide, part._ints().dtype))


def rule_full_like(func: Any, input: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """empty_like and those that write one number: quantized as the tensor is."""
    name = func.__name__
    if dtype is not None and dtype is not input.dtype:
        raise RuntimeError(
            f"It is currently not supported to specify a dtype that doesn't match the input "
            f"tensor's dtype via {name}.  Specified: {dtype} Input tensor's dtype: {input.dtype}"
        )
    value = {"ones_like": 1.0, "empty_like": None}.get(name, args[0] if args else None)
    if name == "full_like" and not args:
        value = kwargs.pop("fill_value")
    made = flambeau.empty_like(input._ints(), **kwargs)
    result = QuantizedTensor._over(made, input._quantizer)
    return result if value is None else _filled(result, value)


rule_ones_like = rule_empty_like = rule_full_like


# Conversions --------------------------------------------------------------------------------------
def rule_to(func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(input, QuantizedTensor):
        raise RuntimeError(
            f"{func.__name__}: a tensor of {input.dtype} cannot become quantized without a scale; "
            "use quantize_per_tensor or quantize_per_channel"
        )
    given = [*args, *kwargs.values()]
    for value in given:
        dtype = value.dtype if isinstance(value, flambeau.Tensor) else value
        if isinstance(dtype, flambeau.dtype) and dtype is not input.dtype:
            if dtype in INTS:
                raise RuntimeError(
                    f"Expected self.scalar_type() == src.scalar_type() to be true, but got {dtype} "
                    f"and {input.dtype}"
                )
            raise RuntimeError(
                "Creation of quantized tensor requires quantized dtype like torch.quint8, got "
                f"{dtype}; dequantize() gives floating point"
            )
    targets = [x.device if isinstance(x, flambeau.Tensor) else x for x in args]
    others = {name: value for name, value in kwargs.items() if name not in ("dtype", "other")}
    if "other" in kwargs:
        targets.append(kwargs["other"].device)
    ints: Any = input._ints()
    keep = [x for x in targets if x is not input.dtype]
    if not keep and not others:
        return input
    if keep and all(type(x) is bool for x in keep):
        keep = [others.pop("device", ints.device), *keep]
    result = ints.to(*keep, **others)
    if result is ints:
        return input
    return QuantizedTensor._over(result, input._quantizer.on(result.device))


rule_type_as = rule_to


def rule_slice_scatter(func: Any, input: Any, src: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(src, QuantizedTensor):
        src = QuantizedTensor._over(_placed(input, src), input._quantizer)
    return same(func, (input, src, *args), kwargs)


rule_select_scatter = rule_slice_scatter


def rule_cpu(func: Any, *args: Any, **kwargs: Any) -> Any:
    return _reshaped(func, args, kwargs)


rule_cuda = rule_cpu


def rule_is_same_size(func: Any, *tensors: Any) -> Any:
    return func(*map(plain, tensors))


def rule_detach(func: Any, input: Any) -> Any:
    return input if kind_of(func).writes else _reshaped(func, (input,), {})


def rule_resize(func: Any, *args: Any, **kwargs: Any) -> Any:
    return _changed_in_place(func, args, kwargs)


rule_resize_as = rule_resize


_OF_TENSOR = ("__get__", "__set__", "__delete__", "__len__", "__dir__", "__hash__")


def call(func: Any, args: Any, kwargs: Any) -> Any:
    """An operation of which at least one argument is quantized."""
    from flambeau._quantized import _nn_rules

    kind = kind_of(func)
    rule = rule_for(kind, globals()) or rule_for(kind, _nn_rules.__dict__)
    if rule is None and (body := body_of(func)) is not None:
        return body(*args, **kwargs)
    with _C.DisableTorchFunctionSubclass():
        if kwargs.get("out") is not None:
            # The core would write integers, whatever they stand for there.
            raise NotImplementedError(f"{kind.name}: out= is not supported for quantized tensors")
        if rule is not None:
            return rule(func, *args, **kwargs)
        return _by_kind(kind, func, args, kwargs)


def _by_kind(kind: Kind, func: Any, args: Any, kwargs: Any) -> Any:
    if not kind.has("op") and (kind.name in _OF_TENSOR or not kind.name.startswith("__")):
        return func(*args, **kwargs)
    if kind.writes and kind_named(kind.name).has("view"):
        return _changed_in_place(func, args, kwargs)
    if kind.has("converts") and not kind.has("view"):
        raise RuntimeError(
            "Creation of quantized tensor requires quantized dtype like torch.quint8: "
            f"{kind.name}() of a quantized tensor; dequantize() gives floating point"
        )
    if kind.writes and kind.has("takes_quantized"):
        same(func, args, kwargs)
        return args[0]
    if kind.writes:
        raise refused(func.__name__, args, kwargs)
    if kind.has("metadata"):
        return func(*map(plain, args), **kwargs)
    if kind.has("gives_bool") and kind.has("takes_quantized"):
        return func(*map(dequantized, args), **kwargs)
    first = args[0] if args else None
    if isinstance(first, (tuple, list)) and kind.has("takes_quantized"):
        return _joined(func, *args, **kwargs)
    if kind.has("view") or (kind.has("moves") and kind.has("takes_quantized")):
        if isinstance(first, flambeau.Tensor) and not isinstance(first, QuantizedTensor):
            return func(*map(plain, args), **kwargs)  # of the shape of a quantized one
        return _moved(kind, func, args, kwargs)
    if kind.has("takes_quantized"):
        first_of(args, kwargs)._per_tensor()
        return same(func, args, kwargs)
    raise refused(kind.name, args, kwargs)


def _changed_in_place(func: Any, args: Any, kwargs: Any) -> Any:
    first = args[0]
    if not isinstance(first, QuantizedTensor):
        raise refused(func.__name__, args, kwargs)
    quantizer, old = first._quantizer, tuple(first._ints().shape)
    view = getattr(first._ints(), kind_of(func).name, None)
    if isinstance(quantizer, PerChannel) and not (view and _in_order(view(*args[1:], **kwargs))):
        raise RuntimeError(f"Can only {func.__name__} quantized tensors with per-tensor schemes!")
    func(*args, **kwargs)
    if isinstance(quantizer, PerChannel):
        first._quantizer = quantizer.reshaped(old, tuple(first._ints().shape))
    return first
