"""What the test suites of public repositories asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn.utils import stateless


def test_getattribute_by_name_finds_no_members():
    """A wrapper that falls back to another module's own attributes relies on it (geoopt)."""
    linear = nn.Linear(2, 2)
    with pytest.raises(AttributeError, match="has no attribute 'weight'"):
        linear.__getattribute__("weight")
    with pytest.raises(AttributeError, match="has no attribute 'weight'"):
        object.__getattribute__(linear, "weight")
    assert linear.__getattribute__("training") is True
    assert linear.__getattr__("weight") is linear.weight


def test_getattribute_can_be_extended():
    class Counting(nn.Linear):
        seen = 0

        def __getattribute__(self, name):
            type(self).seen += 1
            return super().__getattribute__(name)

    linear = Counting(2, 2)
    before = Counting.seen
    assert linear.weight.shape == (2, 2)
    assert Counting.seen == before + 1
    assert linear(fl.ones(1, 2)).shape == (1, 2)


def test_reparametrize_module():
    linear = nn.Linear(2, 2)
    weight = linear.weight
    other = fl.zeros(2, 2)
    with stateless._reparametrize_module(linear, {"weight": other}):
        assert linear.weight is other
    assert linear.weight is weight
    with (
        pytest.raises(RuntimeError, match="Missing key"),
        stateless._reparametrize_module(linear, {"weight": other}, strict=True),
    ):
        pass
    with (
        pytest.raises(ZeroDivisionError),
        stateless._reparametrize_module(linear, {"weight": other}),
    ):
        raise ZeroDivisionError
    assert linear.weight is weight


def test_distribution_keeps_a_shape_that_is_none():
    """A distribution over several tensors tells their shapes in a list (FrEIA)."""
    plain = fl.distributions.Distribution((2,), [3], validate_args=False)
    assert plain.batch_shape == fl.Size([2])
    several = fl.distributions.Distribution(fl.Size(), [(3,), (4,)], validate_args=False)
    assert several.event_shape == [(3,), (4,)]


def test_older_vmap():
    """pytorch-minimize takes Hessians by it; gradients that do not exist may pass through."""
    from flambeau._vmap_internals import _vmap, vmap

    x = fl.randn(3, requires_grad=True, dtype=fl.double)
    unused = fl.zeros(3, requires_grad=True)
    (slope,) = fl.autograd.grad((x**3).sum(), x, create_graph=True)

    def product(v):
        return fl.autograd.grad(slope, [x, unused], v, retain_graph=True, allow_unused=True)

    rows, none = _vmap(product, allow_none_pass_through=True)(fl.eye(3, dtype=fl.double))
    assert none is None
    assert fl.equal(rows, fl.diag(6 * x.detach()))
    swapped = _vmap(lambda v: (v, v), 0, (0, 1))(fl.ones(2, 3))
    assert [tuple(each.shape) for each in swapped] == [(2, 3), (3, 2)]
    with pytest.raises(ValueError, match="NoneType'> for return 1"):
        _vmap(product)(fl.eye(3, dtype=fl.double))
    with pytest.raises(ValueError, match="one dim per output"):
        _vmap(lambda v: (v, v), 0, (0,))(fl.ones(2))
    with pytest.raises(ValueError, match="must only return Tensors, got type <class 'list'>"):
        _vmap(lambda v: [v])(fl.ones(2))
    with pytest.warns(FutureWarning, match=r"torch\.vmap"):
        assert fl.equal(vmap(lambda v: v + 1)(fl.ones(2)), fl.full((2,), 2.0))


def test_helpers_of_functional_derivatives():
    """Their private names are imported by pytorch-minimize."""
    from flambeau.autograd import functional

    x = fl.ones(2, requires_grad=True)
    basis = functional._construct_standard_basis_for((x, fl.zeros(1, dtype=fl.double)), (2, 1))
    assert fl.equal(basis[0], fl.eye(3)[:, :2])
    assert fl.equal(basis[1], fl.eye(3, dtype=fl.double)[:, 2:])
    with pytest.raises(AssertionError):
        functional._construct_standard_basis_for((), ())
    (((plain,),),) = (functional._grad_postprocess(((x,),), create_graph=False),)
    assert not plain.requires_grad
    assert functional._tuple_postprocess(((x,), (x,)), (True, False)) == (x, x)
    assert functional._tuple_postprocess(((x,),), (False, False)) is x
    assert functional._as_tuple([3]) == (3,)


def test_names_of_quantization_can_be_imported():
    from flambeau.ao.quantization import FakeQuantizeBase, ObserverBase

    assert not isinstance(nn.Linear(2, 2), (FakeQuantizeBase, ObserverBase))
    with pytest.raises(NotImplementedError, match="does not turn models into quantized ones"):
        FakeQuantizeBase()


def test_line_search_alone():
    """The search of L-BFGS, and its interpolation, as pytorch-minimize and others call them."""
    from flambeau.optim.lbfgs import _cubic_interpolate, _strong_wolfe

    slopes = fl.tensor(-1.0), fl.tensor(0.5)
    between = _cubic_interpolate(0.0, 1.0, slopes[0], 1.0, 0.9, slopes[1])
    assert float(between) == pytest.approx(0.5168367524)
    assert _cubic_interpolate(1.0, 1.0, slopes[0], 0.2, 0.9, slopes[1], bounds=(2.0, 3.0)) == 2.0

    def value(x, t, d):
        moved = x + t * d
        return float((moved**4).sum()), 4 * moved**3

    x = fl.tensor([1.0, -2.0], dtype=fl.double)
    f, g = value(x, 0.0, x)
    loss, gradient, t, calls = _strong_wolfe(value, x, 1.0, -g, f, g, -g.dot(g))
    assert loss < f
    assert abs(float(gradient.dot(g))) <= 0.9 * float(g.dot(g))
    assert value(x, t, -g)[0] == loss
    stopped = _strong_wolfe(value, x, 1.0, -g, f, g, -g.dot(g), max_ls=1)
    assert stopped[3] < calls


def test_sizes_of_storages_are_those_that_summaries_print():
    """torchinfo adds up what `sys.getsizeof` says."""
    for count in (0, 1, 1000):
        memory = fl.zeros(count).untyped_storage()
        assert memory.__sizeof__() == 40 + 4 * count
        assert sys.getsizeof(memory) == 56 + 4 * count
        typed = fl.TypedStorage(wrap_storage=memory, dtype=fl.float32)
        assert typed.__sizeof__() == 32 + 4 * count


def test_a_graph_of_a_trace_is_refused():
    with pytest.raises(NotImplementedError, match="no TorchScript graphs"):
        fl.jit._get_trace_graph(nn.Linear(2, 2), fl.ones(1, 2))


def test_absent_modules_say_that_they_cannot_be_used():
    """TorchOpt asks torch.distributed.rpc, and goes without it."""
    code = (
        "import torch, torch.distributed.rpc as rpc\n"
        "assert rpc.is_available() is False\n"
        "import torch.distributed.autograd as remote\n"
        "assert remote.is_available() is False\n"
        "from torch.distributed.elastic.utils.distributed import get_free_port\n"
        "import torch.distributed._composable_state\n"
        "assert not isinstance(3, torch.distributed.GradBucket)\n"
        "assert torch.backends.flags_frozen() is False\n"
        "assert not isinstance(3, (torch._C.Graph, torch._C.Value))\n"
        "assert torch._C.Graph is torch._C.Graph\n"
        "try:\n    torch._C.Graph()\nexcept NotImplementedError:\n    print('refused')\n"
    )
    command = [sys.executable, "-m", "flambeau", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "refused", done.stderr


@pytest.mark.parametrize(
    ("name", "mode", "size", "rest"),
    [
        ("upsample_nearest1d", "nearest", [7], ()),
        ("upsample_nearest2d", "nearest", [7, 3], ()),
        ("_upsample_nearest_exact3d", "nearest-exact", [5, 2, 9], ()),
        ("upsample_linear1d", "linear", [7], (True,)),
        ("upsample_bilinear2d", "bilinear", [7, 3], (False,)),
        ("upsample_bicubic2d", "bicubic", [7, 3], (True,)),
        ("upsample_trilinear3d", "trilinear", [5, 2, 9], (False,)),
        ("_upsample_bilinear2d_aa", "bilinear", [2, 3], (False,)),
    ],
)
def test_upsampling_operators(name, mode, size, rest):
    """They stand in tables of operators, and `_C._nn` has them too (fvcore)."""
    x = fl.randn(2, 3, *(5, 4, 6)[: len(size)], dtype=fl.double)
    align = rest[0] if rest else None
    wanted = nn.functional.interpolate(
        x, size=size, mode=mode, align_corners=align, antialias=name.endswith("_aa")
    )
    core = getattr(fl._C._nn, name)
    for operator in (getattr(fl.ops.aten, name), core):
        assert fl.equal(operator(x, size, *rest), wanted)
    factors = [2.0] * len(size)
    doubled = nn.functional.interpolate(
        x, scale_factor=factors, mode=mode, align_corners=align, antialias=name.endswith("_aa")
    )
    assert fl.equal(core(x, None, *rest, factors), doubled)
    assert fl.equal(core(x, list(doubled.shape[2:]), *rest, *factors), doubled)
    with pytest.raises(NotImplementedError, match="cannot make"):
        core(x, [100] * len(size), *rest, *factors)
    with pytest.raises(RuntimeError, match="output_size equals to"):
        core(x, [*size, 2], *rest)
    with pytest.raises(RuntimeError, match="exactly one of"):
        core(x, None, *rest, None)


def test_functions_of_the_core_about_modules():
    core = fl._C._nn
    for name in ("gelu", "linear", "softplus", "scaled_dot_product_attention", "one_hot"):
        assert getattr(core, name) is getattr(nn.functional, name)
    assert core.log_sigmoid is nn.functional.logsigmoid
    x = fl.randn(4)
    assert fl.equal(core.silu(x), nn.functional.silu(x))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = core.nonsense


def test_collating_by_a_map_of_types():
    """Programs enter types of their own into the map (MONAI)."""
    import numpy as np

    from flambeau.utils.data import default_collate
    from flambeau.utils.data._utils.collate import (
        collate,
        collate_tensor_fn,
        default_collate_fn_map,
        np_str_obj_array_pattern,
    )

    class Own:
        pass

    def own(batch, *, collate_fn_map=None):
        return len(batch)

    assert collate([Own()], collate_fn_map={Own: own}) == 1
    with pytest.raises(TypeError, match="batch must contain tensors"):
        default_collate([Own()])
    with pytest.raises(TypeError, match="batch must contain tensors"):
        collate([fl.ones(2)])
    mixed = {**default_collate_fn_map, Own: own}
    made = collate([{"a": Own(), "b": np.ones(2), "c": np.float32(1)}] * 3, collate_fn_map=mixed)
    assert made["a"] == 3
    assert made["b"].shape == (3, 2)
    assert made["c"].dtype == fl.float32
    default_collate_fn_map[Own] = own
    try:
        assert default_collate([(Own(), 1.0), (Own(), 2.0)])[0] == 2
    finally:
        del default_collate_fn_map[Own]
    assert collate_tensor_fn([fl.ones(2), fl.ones(2)]).shape == (2, 2)
    assert np_str_obj_array_pattern.search(np.array(["a"]).dtype.str)
