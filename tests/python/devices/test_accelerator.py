"""The accelerator's questions, and where files look for MultiheadAttention."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import flambeau as torch


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks about a machine without one")
def test_a_machine_without_an_accelerator_says_so():
    assert not torch.accelerator.is_available() and torch.accelerator.device_count() == 0
    assert torch.accelerator.current_accelerator() is None
    with pytest.raises(RuntimeError, match="none is available"):
        torch.accelerator.synchronize()


def test_files_find_attention_where_pytorch_keeps_it():
    kind = torch.nn.MultiheadAttention
    assert kind.__module__ == "flambeau.nn.modules.activation"
    assert torch.nn.modules.activation.MultiheadAttention is kind


def test_devices_without_kernels_are_not_there():
    assert not torch.xpu.is_available() and torch.xpu.device_count() == 0
    assert not torch.mps.is_available() and torch.mps.device_count() == 0
    assert torch.utils.model_zoo.load_url is torch.hub.load_state_dict_from_url


def test_the_extra_for_cuda_brings_every_library_that_is_opened_by_name():
    root = Path(__file__).parents[3]
    sources = "".join(path.read_text() for path in (root / "flambeau/cuda").rglob("*.c*"))
    wanted = set(re.findall(r'Library library\("[^"]+", "[^"]+", "([^"]+)"', sources))
    assert {"nvidia-cusolver", "nvidia-cudnn-cu13"} <= wanted
    offered = (root / "pyproject.toml").read_text().split("\ncuda = [")[1].split("]")[0]
    assert not [name for name in wanted if f'"{name}>=' not in offered]
