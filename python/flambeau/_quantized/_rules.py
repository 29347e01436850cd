"""Operations on quantized tensors: views, choices, order, comparisons and writes; those of networks
are in `_nn_rules`. What moves integers about runs on the integers; what PyTorch has no kernel for
raises, as there.

Rules run with __torch_function__ off: to the core a quantized tensor is its integers.
"""

from __future__ import annotations

import flambeau
from flambeau._quantized._quantizers import INTS, KIND_NAMES, PerChannel, PerTensor
from flambeau._quantized._tensor import QuantizedTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from flambeau import Tensor

# Questions about the shape and the memory of the integers.
_ABOUT = frozenset(
    """size stride dim ndimension numel nelement storage_offset is_contiguous data_ptr element_size
    is_same_size __len__ is_floating_point is_complex is_inference is_shared is_pinned get_device
    is_conj is_neg untyped_storage __get__ __set__ __delete__ _is_view backward register_hook
    retain_grad requires_grad_ is_tensor __dir__ __hash__ is_distributed
    dim_order is_sparse_csr register_post_accumulate_grad_hook""".split()
)
# What changes the shape, of which the channels of a tensor keep their order.
_RESHAPES = frozenset(
    """view reshape flatten ravel unflatten squeeze unsqueeze view_as reshape_as detach contiguous
    clone cpu cuda pin_memory to_dense alias atleast_1d atleast_2d atleast_3d resolve_conj
    resolve_neg positive""".split()
)
_IN_PLACE = frozenset(
    """squeeze_ unsqueeze_ transpose_ t_ swapaxes_ swapdims_ resize_ resize_as_ as_strided_
    share_memory_""".split()
)
# What takes a part, of one channel or of several.
_PARTS = frozenset(
    """select narrow split split_with_sizes chunk unbind tensor_split hsplit vsplit dsplit
    unsafe_chunk unsafe_split unsafe_split_with_sizes""".split()
)
# What moves elements in a way that only a quantizer for all of them survives.
_MOVES = frozenset(
    """permute transpose expand expand_as repeat movedim moveaxis swapaxes swapdims unfold
    as_strided diagonal flip fliplr flipud rot90 index_select tile repeat_interleave
    broadcast_to meshgrid cartesian_prod t adjoint pixel_shuffle pixel_unshuffle
    native_channel_shuffle""".split()
)
_ORDER = frozenset("sort topk argsort msort".split())
_SHAPE_ONLY = frozenset("view_as reshape_as expand_as is_same_size".split())
_BINARY = frozenset(
    """add sub mul div true_divide floor_divide remainder fmod rsub subtract multiply divide
    atan2""".split()
)


def plain(value: Any) -> Any:
    """The integers in place of quantized tensors, in lists too."""
    if isinstance(value, QuantizedTensor):
        return value._ints()
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(map(plain, value))
    return value


def mapped(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """A result, of which the tensors, in tuples too, are changed."""
    if isinstance(value, flambeau.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        items = [mapped(item, change) for item in value]
        return type(value)(items)
    return value


def first_of(args: Any, kwargs: Any) -> Any:
    """The first quantized tensor among arguments."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, QuantizedTensor):
            return value
        if isinstance(value, (list, tuple)):
            found = first_of(value, {})
            if found is not None:
                return found
    return None


def refused(name: str, args: Any = (), kwargs: Any = None) -> Exception:
    """The error of an operation that there is not for quantized tensors."""
    first = first_of(args, kwargs or {})
    kind = "" if first is None else KIND_NAMES[first.dtype]
    if name in _BINARY and len(args) > 1:
        others = [x for x in args[:2] if not isinstance(x, QuantizedTensor)]
        if others:
            what = type(others[0]).__name__
            if isinstance(others[0], flambeau.Tensor):
                what = str(others[0].dtype)
            return RuntimeError(
                "promoteTypes with quantized numbers is not handled yet: "
                f"{name} got {kind} and {what}; dequantize() the tensor first"
            )
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the 'QuantizedCPU' backend: there is no "
        f"such operation on quantized tensors ({kind}); dequantize() them first"
    )


def same(func: Any, args: Any, kwargs: Any) -> Any:
    """Runs on the integers; of the results, those that are integers of the same kind stand for
    numbers in the same way."""
    first = first_of(args, kwargs)
    kind = first._ints().dtype
    result = func(*map(plain, args), **{name: plain(value) for name, value in kwargs.items()})
    quantizer = first._quantizer
    return mapped(result, lambda x: QuantizedTensor._over(x, quantizer) if x.dtype is kind else x)


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


def _getitem(func: Any, input: Any, index: Any) -> Any:
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


def _moved(func: Any, args: Any, kwargs: Any) -> Any:
    first = first_of(args, kwargs)
    if isinstance(first._quantizer, PerChannel):
        raise RuntimeError(
            f"Setting strides is possible only on uniformly quantized tensor: {func.__name__} got "
            f"one of {first.qscheme()}"
        )
    return same(func, args, kwargs)


def _broadcast(func: Any, *tensors: Any) -> Any:
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
def _extreme(name: str) -> Callable[..., Any]:
    def rule(func: Any, input: Any, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
        other = kwargs.pop("other", dim)
        if isinstance(other, flambeau.Tensor) or kwargs:
            raise refused(f"{name}imum", (input, other))
        if not isinstance(input._quantizer, PerTensor):
            raise RuntimeError(
                f"{name.title()} operator for quantized tensors only works for per tensor "
                f"quantized tensors, got {input.qscheme()}"
            )
        if dim is None:
            if input.numel() == 0:
                raise IndexError(f"{name}(): Expected reduction dim 0 to have non-zero size.")
            return same(func, (input,), {})
        return same(func, (input, dim, keepdim), {})

    return rule


def _averaged(name: str) -> Callable[..., Any]:
    def rule(func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
        quantizer = input._per_tensor()
        dtype = kwargs.pop("dtype", None)
        if dtype is not None and dtype is not input.dtype:
            raise RuntimeError(f"{name}: {dtype} is not supported for quantized tensors")
        result = func(quantizer.dequantize(input._ints()), *args, **kwargs)
        ints = quantizer.quantize(result, INTS[input.dtype])
        return QuantizedTensor._over(ints, quantizer)

    return rule


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


def _compared(func: Any, input: Any, other: Any, **kwargs: Any) -> Any:
    return func(dequantized(input), dequantized(other), **kwargs)


def _equal(func: Any, input: Any, other: Any) -> bool:
    both = isinstance(input, QuantizedTensor) and isinstance(other, QuantizedTensor)
    if not both or input.dtype is not other.dtype or input._quantizer != other._quantizer:
        return False
    return flambeau.equal(input._ints(), other._ints())


def _close(func: Any, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("isclose is not supported for quantized inputs.")


# Writes -------------------------------------------------------------------------------------------
def _copied(func: Any, input: Any, src: Any, non_blocking: bool = False) -> Any:
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


def _filled(func: Any, input: Any, value: Any) -> Any:
    ints = input._ints()
    wide = flambeau.empty(ints.shape, dtype=flambeau.float32, device=ints.device).fill_(value)
    ints.copy_(input._quantizer.quantize(wide, ints.dtype))
    return input


def _masked(func: Any, input: Any, mask: Any, value: Any) -> Any:
    if not isinstance(input, QuantizedTensor):
        raise refused("masked_fill", (input, mask, value))
    if not isinstance(input._quantizer, PerTensor):
        raise RuntimeError(
            "masked_fill for quantized tensors is currently only supported for per tensor "
            "quantized tensors"
        )
    value = dequantized(value)
    number = value.item() if isinstance(value, flambeau.Tensor) else value
    result = func(input._ints(), mask, input._quantizer.place(number, INTS[input.dtype]))
    return input if func.__name__.endswith("_") else QuantizedTensor._over(result, input._quantizer)


def _index_put(
    func: Any, input: Any, indices: Any, values: Any, accumulate: bool = False, **kwargs: Any
) -> Any:
    if isinstance(values, QuantizedTensor):
        raise RuntimeError("Value argument for quantized input_put should not be quantized")
    if accumulate:
        raise RuntimeError(
            "index_put for quantized tensors is currently only supported for accumulate=False"
        )
    if not isinstance(input._quantizer, PerTensor):
        raise RuntimeError(
            "index_put for quantized tensors is currently only supported for per tensor quantized "
            "tensors"
        )
    result = func(input._ints(), indices, _placed(input, values))
    return input if func.__name__.endswith("_") else QuantizedTensor._over(result, input._quantizer)


def _setitem(func: Any, input: Any, index: Any, value: Any) -> None:
    if not isinstance(input, QuantizedTensor) or first_of((index,), {}) is not None:
        raise refused("index_put_", (input, index, value))
    if isinstance(value, QuantizedTensor):
        if value.dtype is not input.dtype:
            raise RuntimeError(f"cannot write {value.dtype} into a tensor of {input.dtype}")
        value = value.dequantize()
    if isinstance(input._quantizer, PerTensor):
        func(input._ints(), index, _placed(input, value))
        return
    part = _getitem(flambeau.Tensor.__getitem__, input, index)
    wide = flambeau.empty(part._ints().shape, device=input.device)
    wide[...] = value
    part._ints().copy_(part._quantizer.quantize(wide, part._ints().dtype))


def _full_like(func: Any, input: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
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
    return result if value is None else _filled(None, result, value)


# Conversions --------------------------------------------------------------------------------------
def _to(func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
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
    places = [x.device if isinstance(x, flambeau.Tensor) else x for x in args]
    others = {name: value for name, value in kwargs.items() if name not in ("dtype", "other")}
    if "other" in kwargs:
        places.append(kwargs["other"].device)
    ints: Any = input._ints()
    keep = [x for x in places if x is not input.dtype]
    if not keep and not others:
        return input
    if keep and all(type(x) is bool for x in keep):
        keep = [others.pop("device", ints.device), *keep]
    result = ints.to(*keep, **others)
    if result is ints:
        return input
    return QuantizedTensor._over(result, input._quantizer.on(result.device))


def _converted(func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        "Creation of quantized tensor requires quantized dtype like torch.quint8: "
        f"{func.__name__}() of a quantized tensor; dequantize() gives floating point"
    )


_RULES: dict[str, Callable[..., Any]] = {
    "__getitem__": _getitem,
    "__setitem__": _setitem,
    "broadcast_tensors": _broadcast,
    "max": _extreme("max"),
    "min": _extreme("min"),
    "mean": _averaged("mean"),
    "std": _averaged("std"),
    "equal": _equal,
    "isclose": _close,
    "allclose": _close,
    "detach_": lambda func, input: input,
    "copy_": _copied,
    "fill_": _filled,
    "masked_fill": _masked,
    "masked_fill_": _masked,
    "index_put": _index_put,
    "index_put_": _index_put,
    "to": _to,
    "type_as": _to,
}
_COMPARISONS = """eq ne lt le gt ge not_equal less less_equal greater greater_equal
    __eq__ __ne__ __lt__ __le__ __gt__ __ge__"""
_RULES |= dict.fromkeys(_COMPARISONS.split(), _compared)
_RULES |= dict.fromkeys("empty_like ones_like full_like".split(), _full_like)
_RULES |= dict.fromkeys(
    "cat concat concatenate stack hstack vstack dstack column_stack row_stack".split(), _joined
)
_RULES |= dict.fromkeys(
    "float double half bfloat16 int long short char byte bool cfloat cdouble chalf".split(),
    _converted,
)


def call(func: Any, args: Any, kwargs: Any) -> Any:
    """An operation of which at least one argument is quantized."""
    name = func.__name__
    if kwargs.get("out") is not None:
        # The core would write integers, whatever they stand for there.
        raise NotImplementedError(f"{name}: out= is not supported for quantized tensors")
    rule = _RULES.get(name)
    if rule is not None:
        return rule(func, *args, **kwargs)
    first = args[0] if args else None
    if name in _ABOUT or (name in _SHAPE_ONLY and not isinstance(first, QuantizedTensor)):
        return func(*args, **kwargs)
    if name in _IN_PLACE:
        return _changed_in_place(func, args, kwargs)
    if name in _RESHAPES:
        return _reshaped(func, args, kwargs)
    if name in _PARTS:
        return _part(func, args, kwargs)
    if name in _MOVES:
        return _moved(func, args, kwargs)
    if name in _ORDER:
        first_of(args, kwargs)._per_tensor()
        return same(func, args, kwargs)
    from flambeau._quantized import _nn_rules

    rule = _nn_rules.RULES.get(name)
    if rule is None:
        raise refused(name, args, kwargs)
    _RULES[name] = rule
    return rule(func, *args, **kwargs)


def _changed_in_place(func: Any, args: Any, kwargs: Any) -> Any:
    first = args[0]
    if not isinstance(first, QuantizedTensor):
        raise refused(func.__name__, args, kwargs)
    quantizer, old = first._quantizer, tuple(first._ints().shape)
    if isinstance(quantizer, PerChannel) and func.__name__ not in (
        "squeeze_",
        "unsqueeze_",
        "share_memory_",
    ):
        raise RuntimeError(f"Can only {func.__name__} quantized tensors with per-tensor schemes!")
    func(*args, **kwargs)
    if isinstance(quantizer, PerChannel):
        first._quantizer = quantizer.reshaped(old, tuple(first._ints().shape))
    return first
