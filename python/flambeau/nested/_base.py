"""What nested tensors of both layouts share: the core's tensor holds packed values, and what needs
one size for all components is refused or goes by way of padding."""

from __future__ import annotations

import flambeau
from flambeau import _C
from flambeau._operators._kinds import body_of, kind_of, replaced, rule_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

# The class, of which type checkers know too much: what is an attribute there is a property here.
PlainTensor: Any = flambeau.Tensor


class Nested(PlainTensor):
    """A batch of tensors whose sizes differ. The module of a layout has the rules of single
    operations, `rule_name`, and `by_kind` for all others, which answers NotImplemented to some."""

    @staticmethod
    def _rules() -> dict[str, Any]:
        raise NotImplementedError

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind, kwargs, rules = kind_of(func), kwargs or {}, cls._rules()
        rule = rule_for(kind, rules) or rule_for(kind, globals())
        if rule is None and (body := body_of(func) or _method(cls, kind.name)) is not None:
            return body(*args, **kwargs)
        with _C.DisableTorchFunctionSubclass():
            if rule is not None:
                return rule(func, *args, **kwargs)
            if not kind.has("op") and not kind.name.startswith("__"):
                return func(*args, **kwargs)  # a question about the tensor itself
            if kind.has("metadata"):
                return func(*map(plain, args), **kwargs)
            result = rules["by_kind"](kind, func, args, kwargs)
        if result is not NotImplemented:
            return result
        if kind.has("composed"):
            raise RuntimeError(f"{kind.name}: needs one size for all components of nested tensors")
        raise NotImplementedError(f"{kind.name}: not implemented for nested tensors")

    def values(self) -> Tensor:
        """All elements of all components, packed."""
        with _C.DisableTorchFunctionSubclass():
            return self.as_subclass(flambeau.Tensor)

    @property
    def ndim(self) -> int:
        return self.dim()

    @property
    def is_nested(self) -> bool:
        return True

    def tolist(self) -> Any:
        raise RuntimeError(".tolist() is not supported for tensor subclasses, got NestedTensor")

    def numpy(self, *, force: bool = False) -> Any:
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def to_padded_tensor(self, padding: float, output_size: Any = None) -> Tensor:
        """A tensor in which components are filled up with `padding` to the largest sizes."""
        from flambeau.nested import to_padded_tensor

        return to_padded_tensor(self, padding, output_size)

    @property
    def grad_fn(self) -> Any:
        """The node of the operation that made it, not that of naming it nested."""
        with _C.DisableTorchFunctionSubclass():
            node = PlainTensor.grad_fn.__get__(self)
        if node is None or node.name() != "AliasBackward0":
            return node
        before = node.next_functions[0][0]
        return node if before is None or "AccumulateGrad" in before.name() else before

    def _like(self, values: Tensor) -> Any:
        """Other values over the same components."""
        raise NotImplementedError

    @property
    def grad(self) -> Any:
        with _C.DisableTorchFunctionSubclass():
            found = PlainTensor.grad.__get__(self)
        return found if found is None or isinstance(found, Nested) else self._like(found)

    @grad.setter
    def grad(self, value: Any) -> None:
        with _C.DisableTorchFunctionSubclass():
            PlainTensor.grad.__set__(self, plain(value))


def _method(cls: type, name: str) -> Any:
    """What a class of nested tensors has instead of a method of all tensors."""
    found = vars(cls).get(name) or vars(Nested).get(name)
    return found if callable(found) else None


def plain(value: Any) -> Any:
    """The packed values in place of nested tensors, in lists too."""
    return replaced(value, Nested, Nested.values)


def rule_set(func: Any, *args: Any) -> Any:
    return func(args[0], *map(plain, args[1:]))


rule_delete = rule_set


def rule_grad(func: Any, outputs: Any, inputs: Any, grad_outputs: Any = None, *args: Any) -> Any:
    """torch.autograd.grad: gradients of nested tensors are nested."""
    found = func(plain(outputs), inputs, plain(grad_outputs), *args)
    targets = [inputs] if isinstance(inputs, flambeau.Tensor) else list(inputs)
    return tuple(
        target._like(each) if isinstance(target, Nested) and each is not None else each
        for target, each in zip(targets, found, strict=True)
    )


def rule_backward(func: Any, *args: Any, **kwargs: Any) -> Any:
    return func(*map(plain, args), **{key: plain(arg) for key, arg in kwargs.items()})


def rule_item(func: Any, nested: Any) -> Any:
    return func(nested.values())


def rule_atleast(func: Any, *tensors: Any) -> Any:
    return tensors[0] if len(tensors) == 1 else tensors
