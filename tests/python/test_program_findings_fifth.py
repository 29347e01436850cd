"""Single rules that unmodified programs of other people brought to light, a fifth lot."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn


@pytest.mark.parametrize("name", ["mps", "xpu", "xla", "hpu", "privateuseone"])
def test_devices_can_be_named_that_nothing_lies_on(name: str) -> None:
    device = torch.device(name)
    assert (device.type, device.index, str(torch.device(name, 1))) == (name, None, f"{name}:1")
    assert device == torch.device(name) != torch.device("cpu") and device != torch.device("meta")
    assert hash(device) == hash(torch.device(name)) and torch.ones(1).device != device
    assert pickle.loads(pickle.dumps(device)) == device
    for call in (
        lambda: torch.ones(2, device=name),
        lambda: torch.empty(0, device=f"{name}:0"),
        lambda: torch.rand(2, device=device),
        lambda: torch.tensor([1.0], device=device),
        lambda: torch.ones(2).to(device),
        lambda: nn.Linear(2, 2).to(device),
        lambda: torch.Generator(device),
    ):
        with pytest.raises(RuntimeError, match=f"not linked with support for {name} devices"):
            call()
    torch.set_default_device(name)
    try:
        with pytest.raises(NotImplementedError, match=f"support for {name} devices"):
            torch.zeros(1)
    finally:
        torch.set_default_device("cpu")


def test_names_that_are_no_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"Expected one of cpu, cuda, .*mps.* device type at"):
        torch.device("mpx")


class Counting:
    """What is put before a module's own bases, as fairseq does with its incremental decoders."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.count = 7


def test_bases_of_a_module_class_can_be_replaced() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)

    Model.__bases__ = (Counting, *Model.__bases__)
    model = Model()
    assert model.count == 7 and model(torch.ones(1, 2)).shape == (1, 3)
    assert [name for name, _ in model.named_parameters()] == ["layer.weight", "layer.bias"]


def test_a_file_is_a_lock_between_processes(tmp_path: Path) -> None:
    from flambeau.utils.file_baton import FileBaton

    path = str(tmp_path / "lock")
    first, second = FileBaton(path), FileBaton(path, 0.01, warn_after_seconds=0)
    assert first.try_acquire() and not second.try_acquire()
    threading.Timer(0.1, first.release).start()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        second.wait()
    assert len(said) == 1 and "still waiting" in str(said[0].message)
    assert second.try_acquire()
    second.release()
    second.wait()


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_sampled_images_have_second_derivatives(mode: str, padding: str) -> None:
    torch.manual_seed(0)
    image = torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    grid = (torch.rand(1, 2, 3, 2, dtype=torch.float64) * 3 - 1.5).requires_grad_()
    for corners in (False, True):

        def sample(x: torch.Tensor, at: torch.Tensor, corners: bool = corners) -> torch.Tensor:
            return nn.functional.grid_sample(x, at, mode, padding, corners)

        assert torch.autograd.gradgradcheck(sample, (image, grid))
        # The kernel of the gradients and the operations that stand for it agree.
        plain = torch.autograd.grad(sample(image, grid).square().sum(), (image, grid))
        kept = torch.autograd.grad(
            sample(image, grid).square().sum(), (image, grid), create_graph=True
        )
        for one, other in zip(plain, kept):
            torch.testing.assert_close(one, other.detach())


def test_operators_go_with_their_library() -> None:
    for _ in range(2):  # a second definition is possible once the first is gone
        library = torch.library.Library("passing", "FRAGMENT")
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2)
        assert torch.ops.passing.twice(torch.ones(1)).item() == 2
        del library
        gc.collect()
        assert not hasattr(torch.ops.passing, "twice")
    torch.library.define("passing::kept", "(Tensor x) -> Tensor")
    gc.collect()
    assert torch.ops.passing.kept.default is not None


def test_an_operator_defined_anew_outlives_the_first() -> None:
    def define(factor: int) -> Any:
        @torch.library.custom_op("passing::scaled", mutates_args=())
        def scaled(x: torch.Tensor) -> torch.Tensor:
            return x * factor

        return scaled

    kept = define(2)
    kept = define(3)
    gc.collect()
    assert kept(torch.ones(1)).item() == torch.ops.passing.scaled(torch.ones(1)).item() == 3


def test_what_libraries_of_quantized_weights_mention_when_imported() -> None:
    from flambeau._inductor.decomposition import decompositions, register_decomposition
    from flambeau._prims_common import make_contiguous_strides_for, suggest_memory_format
    from flambeau.sparse import SparseSemiStructuredTensor

    @register_decomposition([torch.ops.aten.relu.default])
    def rule(x: torch.Tensor) -> torch.Tensor:
        return x.clamp(min=0)

    assert decompositions[torch.ops.aten.relu.default] is rule
    assert make_contiguous_strides_for((2, 3, 4)) == (12, 4, 1)
    assert make_contiguous_strides_for((2, 3, 4), row_major=False) == (12, 1, 3)
    image = torch.ones(2, 3, 4, 5)
    assert suggest_memory_format(image) is torch.contiguous_format
    last = image.contiguous(memory_format=torch.channels_last)
    assert suggest_memory_format(last) is torch.channels_last
    assert torch._C.Tag is torch.Tag and not torch._C._cpu._init_amx()
    assert torch._has_compatible_shallow_copy_type(image, last)
    assert not torch._has_compatible_shallow_copy_type(image, image.to_sparse())
    assert nn.functional.ScalingType.RowWise.value == 1
    for use in (
        lambda: torch.ops._c10d_functional.wait_tensor.default(image),
        lambda: nn.functional.scaled_mm(image, image),
        lambda: SparseSemiStructuredTensor(image),
        lambda: torch._inductor.codecache.Anything(),
        lambda: torch.distributed.DeviceMesh("cpu", [0]),
    ):
        with pytest.raises(NotImplementedError):
            use()


def test_sizes_and_dimensions_can_be_single_arguments() -> None:
    x = torch.ones(1, 4, 1)
    assert x.squeeze(0, 2).shape == x.clone().squeeze_(0, 2).shape == (4,)
    assert x.squeeze(0, 1).shape == (4, 1) and x.squeeze(()).shape == (1, 4, 1)
    assert x.broadcast_to(3, 4, 2).shape == x.broadcast_to((3, 4, 2)).shape == (3, 4, 2)


def test_settings_of_profiles_are_accepted() -> None:
    code = """
from torch._C._profiler import _ExperimentalConfig
import torch
assert torch._C._profiler._ExperimentalConfig is torch.profiler._ExperimentalConfig
assert _ExperimentalConfig is torch.profiler._ExperimentalConfig
with torch.profiler.profile(experimental_config=_ExperimentalConfig(verbose=True)):
    torch.ones(2) + 1
"""
    subprocess.run([sys.executable, "-m", "flambeau", "-c", code], check=True)
