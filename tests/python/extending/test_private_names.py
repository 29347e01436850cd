"""Names that libraries ask PyTorch for, and what stands behind them here."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
from flambeau.autograd import DeviceType
from flambeau.backends import cuda as cuda_settings
from flambeau.cuda import comm
from flambeau.profiler import itt
from flambeau.utils._python_dispatch import transform_subclass
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
