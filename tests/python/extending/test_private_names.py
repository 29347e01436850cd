"""Names that libraries ask PyTorch for, and what stands behind them here."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
from flambeau.autograd import DeviceType
from flambeau.backends import cuda as cuda_settings
from flambeau.cuda import comm
from flambeau.fx import _pytree as fx_pytree
from flambeau.nn.utils._named_member_accessor import (
    NamedMemberAccessor,
    swap_submodule,
    swap_tensor,
)
from flambeau.profiler import itt
from flambeau.utils._ordered_set import OrderedSet
from flambeau.utils._python_dispatch import transform_subclass
from flambeau.utils.data._utils import signal_handling
from flambeau.utils.weak import TensorWeakRef, WeakIdKeyDictionary, WeakTensorKeyDictionary


def test_results_with_names_have_types() -> None:
    x = torch.tensor([[1.0, 2.0]])
    assert isinstance(torch.max(x, 1), torch.return_types.max)
    assert isinstance(x.topk(1), torch.return_types.topk)
    assert torch.return_types.linalg_svd in torch.return_types.all_return_types
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        torch.return_types.nothing  # noqa: B018


def test_functions_of_the_module_functional() -> None:
    assert torch.functional.norm is torch.norm and torch.functional.stft is torch.stft
    with pytest.raises(AttributeError, match="no attribute 'relu'"):
        torch.functional.relu  # noqa: B018


def test_wishes_for_libraries_are_remembered() -> None:
    before = cuda_settings.preferred_linalg_library()
    assert cuda_settings.preferred_linalg_library("cusolver").name == "Cusolver"
    cuda_settings.preferred_linalg_library(before)
    assert cuda_settings.preferred_linalg_library() is before
    assert cuda_settings.preferred_blas_library("cublaslt").name == "Cublaslt"
    cuda_settings.preferred_blas_library("default")
    with pytest.raises(RuntimeError, match="Choose from: default, cusolver, magma"):
        cuda_settings.preferred_linalg_library("x")
    with pytest.raises(RuntimeError, match="must be non-negative"):
        torch._C._cufft_set_plan_cache_max_size(0, -1)
    with pytest.raises(ValueError, match="a specified index"):
        cuda_settings.cufft_plan_cache["cuda"]
    if not torch.cuda.is_available():
        for name in ("size", "max_size", "clear"):
            with pytest.raises((RuntimeError, AssertionError), match=r"NVIDIA|CUDA"):
                getattr(cuda_settings.cufft_plan_cache, name)
        with pytest.raises((RuntimeError, AssertionError), match=r"NVIDIA|CUDA"):
            torch._C._cufft_get_plan_cache_size(0)
    with pytest.raises(RuntimeError, match="expected 0 <= device index"):
        cuda_settings.cufft_plan_cache[1000]


def test_which_formulas_of_attention_could_be_used() -> None:
    q = torch.ones(1, 2, 3, 8)
    params = cuda_settings.SDPAParams(q, q, q, None, 0.0, False, False)
    assert not cuda_settings.can_use_flash_attention(params)
    assert not cuda_settings.can_use_cudnn_attention(params)
    with pytest.warns(UserWarning, match="need to be on a cuda device, got cpu, cpu, cpu"):
        assert not cuda_settings.can_use_efficient_attention(params, debug=True)


def test_marks_for_a_profiler_that_is_not_there() -> None:
    assert not itt.is_available()
    with pytest.raises(RuntimeError, match="ITT functions not installed"), itt.range("part"):
        pass
    assert DeviceType.CUDA == 1 and str(DeviceType.CPU) == "DeviceType.CPU"
    assert torch.profiler.DeviceType is DeviceType


def test_tensors_as_keys_do_not_stay_alive() -> None:
    for kind in (WeakIdKeyDictionary, WeakTensorKeyDictionary):
        a, b = torch.ones(2), torch.ones(2)
        known = kind({a: 1})
        known[b] = 2
        assert known[a] == 1 and known[b] == 2 and len(known) == 2 and a in known
        assert torch.ones(2) not in known and list(known.copy().values()) == [1, 2]
        del known[b]
        reference = TensorWeakRef(a)
        assert reference() is a
        del a
        gc.collect()
        assert len(known) == 0 and reference() is None
        with pytest.raises(KeyError):
            known[b]


def test_copies_and_sums_over_devices() -> None:
    x = torch.arange(6.0)
    assert [p.tolist() for p in comm.scatter(x, ["cpu", "cpu"])] == [[0, 1, 2], [3, 4, 5]]
    assert [p.numel() for p in comm.scatter(x, ["cpu", "cpu"], [2, 4])] == [2, 4]
    assert comm.gather(comm.scatter(x, ["cpu", "cpu"]), 0, -1).equal(x)
    assert comm.reduce_add([x, x], "cpu").equal(2 * x)
    assert comm.broadcast(x, ["cpu"])[0].equal(x)
    assert comm.reduce_add_coalesced([[x], [x]], "cpu")[0].equal(2 * x)
    with pytest.raises(RuntimeError, match="Exactly one of 'devices' and 'out'"):
        comm.broadcast(x)
    with pytest.raises(ValueError, match="different shapes"):
        comm.reduce_add([x, x[:2]])


def test_the_cpu_has_one_stream() -> None:
    stream = torch.cpu.Stream()
    with torch.cpu.stream(stream):
        assert torch.cpu.current_stream() is stream
    assert torch.cpu.current_stream() is not stream and stream.record_event().query()


def test_nothing_is_compiled_so_nothing_is_explained() -> None:
    told = torch._dynamo.explain(lambda x: x + 1)(torch.ones(2))
    assert told.graph_count == told.graph_break_count == 0
    assert "Graph Break Count: 0" in str(told)


@pytest.mark.parametrize("choice", ["overwrite", "swap"])
def test_how_modules_convert_can_be_chosen(choice: str) -> None:
    choose = getattr(torch.__future__, f"set_{choice}_module_params_on_conversion")
    layer = torch.nn.Linear(2, 2)
    weight = layer.weight
    weight.grad = torch.ones(2, 2)
    choose(True)
    try:
        layer.double()
    finally:
        choose(False)
    assert (layer.weight is weight) == (choice == "swap")
    assert layer.weight.dtype is torch.float64 and layer.weight.grad.dtype is torch.float64
    assert weight.dtype is (torch.float64 if choice == "swap" else torch.float32)


def test_a_wrapper_is_made_again_of_other_tensors() -> None:
    class Pair(torch.Tensor):
        @staticmethod
        def __new__(cls: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
            made = torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)
            made.a, made.b = a, b
            return made

        def __tensor_flatten__(self) -> Any:
            return ["a", "b"], None

        @staticmethod
        def __tensor_unflatten__(inside: Any, context: Any, size: Any, stride: Any) -> Any:
            return Pair(inside["a"], inside["b"])

        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return NotImplemented

    pair = transform_subclass(Pair(torch.ones(2), torch.zeros(2)), lambda name, x: x + 1)
    assert pair.a.eq(2).all() and pair.b.eq(1).all()


def test_the_number_of_a_device() -> None:
    from flambeau._utils import _get_device_index, classproperty

    assert _get_device_index("cuda:3") == 3 and _get_device_index(2) == 2
    assert _get_device_index("cpu", allow_cpu=True) == -1
    with pytest.raises(ValueError, match="Expected a non cpu device"):
        _get_device_index("cpu")
    with pytest.raises(ValueError, match="with a specified index or an integer"):
        _get_device_index(None)

    class Example:
        @classproperty
        def word(self) -> str:
            return "yes"

    assert Example.word == "yes"


def test_the_coverage_tool_counts_names_that_only_a_gpu_answers(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("torch.backends.cuda.cufft_plan_cache.size\ntorch.exp\ntorch.no_such_name\n")
    tool = Path(__file__).parents[3] / "tools" / "coverage.py"
    run = subprocess.run([sys.executable, tool, names], capture_output=True, text=True, check=True)
    assert "2 of 3 names present" in run.stdout


def test_groups_of_tensors_have_one_type_and_a_limited_size() -> None:
    sizes = [(3, torch.float32), (2, torch.int64), (4, torch.float32), (100, torch.float32)]
    tensors = [torch.ones(n, dtype=dtype) for n, dtype in sizes]
    groups = [[len(x) for x in group] for group in torch._utils._take_tensors(tensors, 28)]
    assert groups == [[3, 4], [100], [2]]


def test_members_of_modules_are_swapped_by_their_names() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    members = NamedMemberAccessor(model)
    weight, new = model[0].weight, torch.ones(2, 2)
    assert members.swap_tensor("0.weight", new) is weight and model[0].weight is new
    assert members.check_keys(["0.weight", "x"]) == (["0.bias"], ["x"])
    with pytest.raises(AttributeError, match="Linear has no attribute `x`"):
        members.swap_tensor("0.x", new)
    before, missing = members.swap_tensors_dict({"0.weight": weight, "0.x": new}, True)
    assert missing == ["0.x"] and model[0].x is new
    members.swap_tensors_dict(before, allow_missing=True)
    assert model[0].weight is new and not hasattr(model[0], "x")
    members.del_tensor("0.bias")
    assert [name for name, _ in members.named_tensors()] == ["0.weight"]
    assert swap_submodule(model, "1", torch.nn.Tanh()) is not model[1]
    with pytest.raises(KeyError, match="tensor name can"):
        swap_tensor(model, "0.weight", new)


def test_names_that_libraries_take_in_passing() -> None:
    for name in ("TensorType", "DeviceObjType", "ScriptObject"):
        assert isinstance(getattr(torch, name), type) and not isinstance(1, getattr(torch, name))
    with pytest.raises(AttributeError, match="no attribute 'NothingType'"):
        torch.NothingType  # noqa: B018
    assert torch.nn.modules.conv._ConvTransposeMixin.__name__ == "_ConvTransposeMixin"
    normal = torch.distributions.Normal
    assert (normal, normal) in torch.distributions.kl._KL_REGISTRY
    clipped = torch.distributions.transforms._clipped_sigmoid(torch.tensor([-1e3, 0.0, 1e3]))
    assert 0 < clipped[0] < clipped[1] == 0.5 < clipped[2] < 1
    seen: list[str] = []
    hooks = torch.nn.modules.module._global_parameter_registration_hooks
    handle = torch.nn.modules.module.register_module_parameter_registration_hook(
        lambda module, name, parameter: seen.append(name)
    )
    assert len(hooks) == 1
    torch.nn.Linear(1, 1)
    handle.remove()
    assert seen == ["weight", "bias"] and not hooks


def test_a_worker_that_fails_is_noticed() -> None:
    failing = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    signal_handling._set_worker_pids(1, (failing.pid,))
    try:
        with pytest.raises(RuntimeError, match=r"worker \(pid \d+\) exited unexpectedly.* 3"):
            for _ in range(600):
                signal_handling._error_if_any_worker_fails()
                time.sleep(0.05)
    finally:
        signal_handling._remove_worker_pids(1)
        failing.wait()
    signal_handling._error_if_any_worker_fails()


@pytest.mark.parametrize("kind", ["mps", "xpu", "mtia"])
def test_devices_without_kernels_can_be_named_and_refuse(kind: str) -> None:
    module = getattr(torch, kind)
    assert not module.is_available() and module.device_count() == 0
    function = module.set_rng_state
    assert function is module.set_rng_state and function.__name__ == "set_rng_state"
    with pytest.raises((AssertionError, RuntimeError), match=f"torch.{kind}.set_rng_state: there"):
        function(torch.ones(1))
    with pytest.raises(NotImplementedError, match="there are no kernels for these devices"):
        module.Event()
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        module.nothing  # noqa: B018


def test_a_compiler_that_is_asked_for_says_that_nothing_is_compiled() -> None:
    assert torch._guards.TracingContext.try_get() is None
    assert torch._guards.active_fake_mode() is None
    assert torch._disable_dynamo(len) is len and torch._disable_dynamo()(len) is len
    assert torch.optim.optimizer._disable_dynamo_if_unsupported(len)(len) is len
    assert torch.autograd._is_checkpoint_valid() and not torch._C._is_tracing()


def test_sets_that_keep_their_order() -> None:
    a = OrderedSet([3, 1, 3, 2])
    assert list(a) == [3, 1, 2] and list(reversed(a)) == [2, 1, 3] and a == {1, 2, 3}
    a.add(0)
    a.discard(9)
    assert a.pop() == 0 and list(a | [7]) == [3, 1, 2, 7] and list(a - {1}) == [3, 2]
    assert (
        list(a.intersection([2, 3])) == [3, 2]
        and a.issuperset([1])
        and repr(a) == ("OrderedSet([3, 1, 2])")
    )


def test_leaves_by_a_spec_of_a_graph() -> None:
    tree = {"a": [1, 2], "b": (3,)}
    _, spec = torch.utils._pytree.tree_flatten(tree)
    assert fx_pytree.tree_flatten_spec(tree, spec) == [1, 2, 3]
    with pytest.raises(ValueError):
        fx_pytree.tree_flatten_spec({"a": [1]}, spec)


def test_storages_of_bytes_have_a_base() -> None:
    storage = torch.ones(2).untyped_storage()
    assert isinstance(storage, torch.StorageBase) and isinstance(storage, torch.UntypedStorage)
    assert not isinstance(torch.FloatStorage(2), torch.StorageBase)


def test_a_member_of_a_group_belongs_to_the_world() -> None:
    assert torch.distributed.GroupMember.WORLD is torch.distributed.group.WORLD
