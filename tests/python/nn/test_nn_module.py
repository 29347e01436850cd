"""nn.Module: registration, attributes, traversal, conversion, printing, copying."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import pytest

import flambeau as torch
from flambeau import nn


class Block(nn.Module):
    """A module with one of everything."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 3)
        self.scale = nn.Parameter(torch.ones(3))
        self.register_parameter("absent", None)
        self.register_buffer("seen", torch.zeros(3))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * self.scale


def test_assignment_registers_parameters_modules_and_buffers() -> None:
    block = Block()
    assert list(block._parameters) == ["scale", "absent"]
    assert list(block._modules) == ["layer"]
    assert list(block._buffers) == ["seen", "scratch"]
    assert block.absent is None
    block.extra = nn.Buffer(torch.ones(2), persistent=False)
    assert "extra" in block._buffers and "extra" in block._non_persistent_buffers_set


def test_a_member_can_change_its_kind() -> None:
    block = Block()
    block.seen = nn.Parameter(torch.ones(1))
    assert "seen" not in block._buffers and "seen" in block._parameters
    block.plain = 3
    block.plain = nn.ReLU()
    assert "plain" not in block.__dict__ and "plain" in block._modules
    del block.plain
    assert not hasattr(block, "plain")


def test_a_buffer_takes_tensors_and_none() -> None:
    block = Block()
    block.seen = torch.ones(3)
    assert block._buffers["seen"].sum() == 3
    block.seen = None
    assert block.seen is None and "seen" in block._buffers


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda b: setattr(b, "scale", 3), TypeError, "cannot assign 'int' as parameter 'scale'"),
        (lambda b: setattr(b, "layer", 3), TypeError, "as child module 'layer'"),
        (lambda b: setattr(b, "seen", 3), TypeError, "as buffer 'seen'"),
        (lambda b: b.register_buffer("a.b", None), KeyError, 'contain "."'),
        (lambda b: b.register_buffer("", None), KeyError, "empty string"),
        (lambda b: b.register_buffer("layer", None), KeyError, "already exists"),
        (lambda b: b.register_buffer(1, None), TypeError, "should be a string. Got int"),
        (lambda b: b.register_buffer("n", 1), TypeError, "torch Tensor or None required"),
        (lambda b: b.register_parameter("n", torch.ones(1)), TypeError, "torch.nn.Parameter"),
        (lambda b: b.register_parameter("forward", None), KeyError, "already exists"),
        (lambda b: b.add_module("n", 3), TypeError, "int is not a Module subclass"),
        (lambda b: b.add_module("a.b", None), KeyError, 'got: a.b'),
        (lambda b: b.missing, AttributeError, "'Block' object has no attribute 'missing'"),
        (lambda b: b.train(1), ValueError, "expected to be boolean"),
        (lambda b: b.to(torch.int64), TypeError, "floating point or complex"),
        (lambda b: b.get_submodule("layer.x"), AttributeError, "Linear has no attribute `x`"),
        (lambda b: b.get_parameter("seen"), AttributeError, "`seen` is not an nn.Parameter"),
        (lambda b: b.get_buffer("scale"), AttributeError, "`scale` is not a buffer"),
        (lambda b: b.set_submodule("", nn.ReLU()), ValueError, "without a target name"),
    ],
)  # fmt: skip
def test_mistakes_are_named(change, error, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error) as caught:
        change(Block())
    assert message in str(caught.value)


def test_members_cannot_be_assigned_before_init() -> None:
    class Early(nn.Module):
        def __init__(self, value: object) -> None:
            self.member = value

    for value, kind in ((nn.Parameter(torch.ones(1)), "parameters"), (nn.ReLU(), "module"),
                        (nn.Buffer(torch.ones(1)), "buffer")):  # fmt: skip
        with pytest.raises(AttributeError, match=f"cannot assign {kind} before Module.__init__"):
            Early(value)


def test_a_module_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match='missing the required "forward" function'):
        nn.Module()(1)


def test_init_takes_no_arguments_unless_it_passes_them_on() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'a'"):
        nn.Module(a=1)
    with pytest.raises(TypeError, match="takes 1 positional argument but 3 were given"):
        nn.Module(1, 2)

    class Mixin:
        def __init__(self, z: int) -> None:
            self.z = z

    class Both(nn.Module, Mixin):
        call_super_init = True

    assert Both(5).z == 5


def test_an_instance_may_replace_forward() -> None:
    layer = nn.Linear(2, 2)
    layer.forward = lambda x: "patched"  # type: ignore[method-assign, assignment, return-value]
    assert layer(torch.ones(2)) == "patched"


def test_forward_takes_keywords_and_many_arguments() -> None:
    class Sum(nn.Module):
        def forward(self, *numbers: int, start: int = 0) -> int:
            return sum(numbers, start)

    assert Sum()(*range(12), start=100) == 166
    assert Sum()(1, start=1) == 2
    assert Sum()() == 0


def test_getattr_can_be_extended() -> None:
    class Wrapper(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def __getattr__(self, name: str) -> object:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("inner"), name)

    wrapper = Wrapper(nn.Linear(2, 5))
    assert wrapper.out_features == 5
    assert wrapper.weight is wrapper.inner.weight
    with pytest.raises(AttributeError):
        wrapper.nothing  # noqa: B018


def test_properties_and_class_attributes_are_found() -> None:
    class WithProperty(nn.Module):
        kind = "mine"

        @property
        def broken(self) -> int:
            return self.not_there

        @property
        def fine(self) -> int:
            return 4

    module = WithProperty()
    assert (module.kind, module.fine) == ("mine", 4)
    assert not hasattr(module, "broken")


def test_a_class_may_be_given_another_getattr_later() -> None:
    class Late(nn.Module):
        pass

    module = Late()
    assert not hasattr(module, "anything")
    Late.__getattr__ = lambda self, name: name  # type: ignore[method-assign, assignment]
    assert module.anything == "anything"


def test_registries_replaced_by_hand_are_respected() -> None:
    layer = nn.Linear(2, 2)
    layer._parameters["weight"] = None
    assert layer.weight is None
    del layer._parameters["bias"]
    assert not hasattr(layer, "bias")


def test_traversal_names_everything_once() -> None:
    shared = nn.Linear(1, 1, bias=False)
    net = nn.Sequential(shared, nn.Sequential(nn.ReLU(), shared))
    assert [name for name, _ in net.named_parameters()] == ["0.weight"]
    assert [name for name, _ in net.named_parameters(remove_duplicate=False)] == [
        "0.weight",
        "1.1.weight",
    ]
    assert [name for name, _ in net.named_modules()] == ["", "0", "1", "1.0"]
    assert [name for name, _ in net.named_modules(prefix="p")] == ["p", "p.0", "p.1", "p.1.0"]
    assert [name for name, _ in net.named_children()] == ["0", "1"]
    assert len(list(net.modules())) == 4
    assert list(net.parameters(recurse=False)) == []
    assert [n for n, _ in Block().named_buffers(prefix="b")] == ["b.seen", "b.scratch"]


def test_members_are_found_by_path() -> None:
    net = nn.ModuleDict({"block": Block()})
    assert net.get_submodule("block.layer") is net["block"].layer
    assert net.get_submodule("") is net
    assert net.get_parameter("block.layer.weight") is net["block"].layer.weight
    assert net.get_buffer("block.seen") is net["block"].seen
    net.set_submodule("block.layer", nn.Identity())
    assert isinstance(net["block"].layer, nn.Identity)


def test_conversion_keeps_the_parameter_objects() -> None:
    block = Block()
    weight = block.layer.weight
    weight.grad = torch.ones_like(weight)
    block.register_buffer("count", torch.tensor(3))
    assert block.double() is block
    assert block.layer.weight is weight and weight.dtype == torch.float64
    assert weight.grad.dtype == torch.float64
    assert block.count.dtype == torch.int64
    assert block.half().scale.dtype == torch.float16
    assert block.bfloat16().seen.dtype == torch.bfloat16
    assert block.to(torch.float32).scale.dtype == torch.float32
    assert block.to("cpu", torch.float64).scale.dtype == torch.float64
    assert block.to(torch.ones(1)).scale.dtype == torch.float32
    assert block.to(device="cpu", non_blocking=True).scale.dtype == torch.float32
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        block.to(1, 2, 3, 4, 5)


def test_meta_modules_have_no_data() -> None:
    layer = nn.Linear(3, 4, device="meta")
    assert layer.weight.is_meta and layer.weight.shape == (4, 3)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        layer.to("cpu")
    assert layer.to_empty(device="cpu").weight.device.type == "cpu"
    assert nn.utils.skip_init(nn.Linear, 3, 4).weight.shape == (4, 3)


def test_train_eval_apply_and_gradients_reach_all_children() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout()))
    net.eval()
    assert not any(module.training for module in net.modules())
    net.train()
    assert all(module.training for module in net.modules())
    names: list[str] = []
    assert net.apply(lambda module: names.append(type(module).__name__)) is net
    assert names == ["Linear", "Dropout", "Sequential", "Sequential"]
    net.requires_grad_(False)
    assert not any(param.requires_grad for param in net.parameters())
    net.requires_grad_()
    net(torch.ones(1, 2)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert all(param.grad.abs().sum() == 0 for param in net.parameters())
    net.zero_grad()
    assert all(param.grad is None for param in net.parameters())


def test_modules_print_as_a_tree() -> None:
    net = nn.Sequential(nn.Linear(1, 2), nn.Sequential(nn.ReLU(), nn.Dropout(0.25)))
    assert repr(net) == (
        "Sequential(\n"
        "  (0): Linear(in_features=1, out_features=2, bias=True)\n"
        "  (1): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Dropout(p=0.25, inplace=False)\n"
        "  )\n"
        ")"
    )

    class Described(nn.Module):
        def extra_repr(self) -> str:
            return "first\nsecond"

    assert repr(Described()) == "Described(\n  first\n  second\n)"
    assert repr(nn.Module()) == "Module()"


def test_parameters_print_and_behave_as_tensors() -> None:
    param = nn.Parameter(torch.ones(2))
    assert repr(param) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert isinstance(param, torch.Tensor) and param.is_leaf and param.requires_grad
    assert type(param * 2) is torch.Tensor
    assert type(param.data) is torch.Tensor
    assert not isinstance(torch.ones(1), nn.Parameter)
    assert nn.Parameter(torch.ones(1), requires_grad=False).requires_grad is False
    with pytest.raises(RuntimeError, match="floating point and complex"):
        nn.Parameter(torch.ones(1, dtype=torch.int64))
    data = torch.zeros(2)
    nn.Parameter(data).data.fill_(3)
    assert data.tolist() == [3, 3]


def test_parameters_copy_and_pickle_with_their_attributes() -> None:
    param = nn.Parameter(torch.ones(2))
    param.note = "kept"
    loaded = pickle.loads(pickle.dumps(param))
    assert type(loaded) is nn.Parameter and loaded.note == "kept" and loaded.requires_grad
    copied = copy.deepcopy(nn.Parameter(torch.ones(2), requires_grad=False))
    assert type(copied) is nn.Parameter and not copied.requires_grad


def test_deepcopy_keeps_sharing_and_pickle_keeps_values() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    copied = copy.deepcopy(net)
    assert copied[1].weight is copied[0].weight
    assert copied[0].weight is not net[0].weight
    assert torch.equal(copied[0].weight, net[0].weight)
    loaded = pickle.loads(pickle.dumps(net))
    assert loaded[1].weight is loaded[0].weight
    assert torch.equal(loaded[0].bias, net[0].bias)


def test_dir_lists_members_but_not_numbers() -> None:
    names = dir(nn.Sequential(nn.Linear(1, 1)))
    assert "0" not in names and "append" in names
    assert {"weight", "in_features", "forward"} <= set(dir(nn.Linear(1, 1)))


def test_modules_die_without_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        net(torch.ones(1, 2)).sum().backward()
        reference = weakref.ref(net)
        del net
        assert reference() is None
    finally:
        gc.enable()


def test_buffers_of_a_module_with_an_older_register_buffer() -> None:
    class Older(nn.Module):
        def register_buffer(self, name, value):
            super().register_buffer(name, value, True)

    module = Older()
    module.table = nn.Buffer(torch.ones(2))
    assert list(module.state_dict()) == ["table"]


def test_modules_are_not_copied_by_to() -> None:
    with pytest.raises(RuntimeError, match="does not accept copy argument"):
        nn.Linear(2, 2).to("cpu", copy=True)


def test_storages_of_shared_modules_say_so() -> None:
    module = nn.Linear(2, 2)
    assert not module.weight.storage().is_shared()
    module.share_memory()
    assert module.weight.storage().is_shared() and module.weight.untyped_storage().is_shared()


def test_a_buffer_does_not_take_the_place_of_a_plain_attribute() -> None:
    module = nn.Module()
    module.scale = 5
    with pytest.raises(KeyError, match="already exists"):
        module.scale = nn.Buffer(torch.ones(1))
    module.weight = nn.Parameter(torch.ones(1))
    module.weight = nn.Buffer(torch.zeros(1))
    assert [name for name, _ in module.named_buffers()] == ["weight"]
