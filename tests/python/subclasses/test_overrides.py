"""__torch_function__: subclasses, classes that only look like tensors, and modes."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import overrides


class Sub(torch.Tensor):
    pass


class SubSub(Sub):
    pass


class Logged(torch.Tensor):
    calls: list[str] = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Diagonal:
    """No tensor, but takes part."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, types, args[1:], kwargs or {}


class Refuses:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


x = torch.ones(2)


def test_results_are_of_the_subclass() -> None:
    s = x.as_subclass(Sub)
    for result in (s + 1, s.sum(), torch.add(x, s), s[0], s.clone(), s.split(1)[0], s.view(2, 1)):
        assert type(result) is Sub
    assert type(s.shape) is torch.Size and type(s.tolist()) is list and s.grad is None
    assert type(x.as_subclass(SubSub) + s) is SubSub and type(s + x.as_subclass(SubSub)) is SubSub
    assert type(torch.max(s.view(1, 2), 1).values) is Sub


def test_unrelated_subclasses_do_not_mix() -> None:
    class Other(torch.Tensor):
        pass

    with pytest.raises(TypeError):
        x.as_subclass(Sub) + x.as_subclass(Other)


def test_subclasses_see_every_operation() -> None:
    logged = x.as_subclass(Logged)
    Logged.calls.clear()
    logged + 1
    torch.mul(logged, x)
    logged.sum().item()
    assert Logged.calls == ["add", "mul", "sum", "item"]
    with torch._C.DisableTorchFunctionSubclass():
        assert type(logged + 1) is torch.Tensor
    assert len(Logged.calls) == 4


def test_a_class_that_is_no_tensor() -> None:
    d = Diagonal()
    name, types, rest, kwargs = torch.add(d, x, alpha=2)
    assert (name, types, kwargs) == ("add", (Diagonal,), {"alpha": 2}) and rest[0] is x
    assert torch.stack([x, d])[0] == "stack"
    assert (x + d)[0] == "add"


def test_refusals_are_type_errors() -> None:
    with pytest.raises(TypeError, match="Refuses"):
        torch.add(Refuses(), x)


def api(a, b=1):
    if overrides.has_torch_function((a,)):
        return overrides.handle_torch_function(api, (a,), a, b=b)
    return "own"


def test_functions_written_in_python() -> None:
    assert api(x) == "own" and api(3) == "own"
    assert api(Diagonal()) == ("api", (Diagonal,), (), {"b": 1})
    with pytest.raises(TypeError, match=r"no implementation found for '.*api' on types that"):
        api(Refuses())

    @overrides.wrap_torch_function(lambda a: (a,))
    def wrapped(a):
        return "own"

    assert wrapped(1) == "own" and wrapped(Diagonal())[0] == "wrapped"


def test_predicates() -> None:
    assert not overrides.has_torch_function((x, 3, torch.nn.Parameter(x)))
    assert overrides.has_torch_function((3, Diagonal()))
    assert overrides.is_tensor_like(x) and overrides.is_tensor_like(Diagonal())
    assert not overrides.is_tensor_like(3)


class Noting(overrides.TorchFunctionMode):
    def __init__(self, name: str, seen: list[str]) -> None:
        self.name, self.seen = name, seen

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(f"{self.name} {func.__name__}")
        return func(*args, **(kwargs or {}))


def test_modes_see_every_operation() -> None:
    seen: list[str] = []
    with Noting("outer", seen), Noting("inner", seen):
        torch.add(x, x)
        x * 2
        torch.ones(2)
    assert seen == [
        "inner add", "outer add", "inner mul", "outer mul", "inner ones", "outer ones",
    ]  # fmt: skip
    seen.clear()
    torch.add(x, x)
    assert seen == []


def test_a_mode_that_fails_is_left() -> None:
    class Fails(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise KeyError(func.__name__)

    with pytest.raises(KeyError), Fails():
        torch.add(x, x)
    assert torch.add(x, x).tolist() == [2.0, 2.0]


def test_names() -> None:
    assert overrides.resolve_name(torch.add) == "torch.add"
    assert overrides.resolve_name(torch.Tensor.add) == "torch.Tensor.add"
    assert overrides.resolve_name(torch.nn.functional.relu) == "torch.nn.functional.relu"
    assert overrides.resolve_name(test_names) is None
    functions = overrides.get_overridable_functions()
    assert torch.add in functions[torch] and torch.Tensor.add in functions[torch.Tensor]
    assert overrides.is_tensor_method_or_property(torch.Tensor.add)
    assert not overrides.is_tensor_method_or_property(torch.add)
    assert torch.is_tensor in overrides.get_ignored_functions()
    assert overrides.get_testing_overrides()[torch.add](x, x) == -1


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("2.0 - t", ["__rsub__"]),
        ("2.0 / t", ["__rdiv__"]),
        ("2.0 // t", ["__rfloordiv__"]),
        ("2.0 % t", ["__rmod__"]),
        ("2.0 ** t", ["__rpow__"]),
        ("t // 2", ["__floordiv__"]),
        ("t == t", ["__eq__"]),
        ("i & 1", ["__and__"]),
        ("1 << i", ["__rlshift__"]),
        ("~i", ["__invert__"]),
        ("len(t)", ["__len__"]),
        ("bool(t[0])", ["__getitem__", "__bool__"]),
        ("float(t[0])", ["__getitem__", "__float__"]),
        ("repr(t)", ["__repr__"]),
        ("1.0 in t", ["__contains__"]),
        ("t.shape", ["__get__"]),
        ("t.data", ["__get__"]),
        ("t.size(0)", ["size"]),
        ("t.dim()", ["dim"]),
        ("iter(t)", ["dim", "unbind"]),
    ],
)
def test_operators_attributes_and_methods_name_themselves(expression: str, names: list) -> None:
    values = {"t": x.as_subclass(Logged), "i": torch.ones(2, dtype=torch.int).as_subclass(Logged)}
    Logged.calls.clear()
    result = eval(expression, values)
    assert Logged.calls == names
    plain = eval(expression, {"t": x, "i": torch.ones(2, dtype=torch.int)})
    if isinstance(plain, torch.Tensor):
        assert type(result) is Logged
        assert result.as_subclass(torch.Tensor).equal(plain)


def test_the_bool_of_a_tensor_is_no_tensor() -> None:
    class Stubborn(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):  # type: ignore
            return args[0]

    with pytest.raises(TypeError, match="__bool__ should return bool, returned Stubborn"):
        bool(torch.ones(1).as_subclass(Stubborn))


def test_a_tensor_points_at_itself() -> None:
    x = torch.arange(64.0).reshape(2, 2, 2, 2, 2, 2)
    assert x.set_(x).sum() == 2016 and x.is_contiguous()


def test_rules_go_by_the_op_whose_alias_is_called() -> None:
    from flambeau._operators._kinds import names_of

    assert names_of("swapdims")[1] == "transpose"
    assert names_of("concatenate")[1] == "cat"
    assert names_of("add")[1] == "add"
    assert names_of("adaptive_avg_pool2d")[2] == "adaptive_avg_pool"
