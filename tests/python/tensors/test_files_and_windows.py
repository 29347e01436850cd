"""Files and capsules as tensors, window functions, and methods of older programs."""

from __future__ import annotations

from pathlib import Path

import pytest

import flambeau as torch


def test_a_file_is_memory(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    shared = torch.from_file(str(path), shared=True, size=3, dtype=torch.int32)
    shared.copy_(torch.tensor([1, 2, 3]))
    private = torch.from_file(str(path), size=3, dtype=torch.int32)
    assert private.tolist() == [1, 2, 3]
    private.zero_()
    assert shared.tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="unable to open file"):
        torch.from_file(str(tmp_path / "none"), size=1)
    with pytest.raises(RuntimeError, match="too small"):
        torch.from_file(str(path), size=100)


def test_capsules_and_quantized_tensors() -> None:
    x = torch.ones(2)
    assert torch.from_dlpack(torch.to_dlpack(x)).tolist() == [1.0, 1.0]
    assert torch.dequantize(x.double()).dtype == torch.float32
    assert [y.dtype for y in torch.dequantize([x])] == [torch.float32]


def test_devices_have_modules() -> None:
    assert torch.get_device_module("cpu").__name__ == "flambeau.cpu"
    assert torch.get_device_module(torch.device("cuda")).__name__ == "flambeau.cuda"
    with pytest.raises(RuntimeError, match="'meta' does not have a corresponding module"):
        torch.get_device_module("meta")
    assert issubclass(torch.AcceleratorError, RuntimeError)


def test_denormals_can_be_flushed() -> None:
    tiny = torch.tensor([1e-310], dtype=torch.float64)
    assert torch.set_flush_denormal(True)
    try:
        assert (tiny * 1.0).item() == 0.0
    finally:
        torch.set_flush_denormal(False)
    assert (tiny * 1.0).item() == 1e-310


def test_methods_of_older_programs() -> None:
    x = torch.tensor([2.0, 4.0])
    assert x.__div__(2).tolist() == [1.0, 2.0]
    assert x.clone().__idiv__(2).tolist() == [1.0, 2.0]
    assert x[:1].__long__() == 2 and x[:1].__nonzero__()
    with pytest.raises(ValueError, match="one element"):
        x.__long__()
    assert x.resize(2, 1).shape == (2, 1) and x.resize((1, 2)).shape == (1, 2)
    assert x.resize_as(torch.ones(2, 1)).shape == (2, 1)
    assert x.clone().map2_(x, torch.ones(1), lambda a, b, c: a + b + c).tolist() == [5.0, 9.0]
    assert not x.is_distributed()
    assert (x - 2).hardshrink(1.0).tolist() == [0.0, 2.0]
    with pytest.raises(RuntimeError, match="removed"):
        x.reinforce(1)


def test_windows_are_symmetric_or_periodic() -> None:
    windows = torch.signal.windows
    for name in windows.__all__:
        options = {"a": [0.5, 0.5]} if name == "general_cosine" else {}
        symmetric = getattr(windows, name)(7, **options)
        assert torch.allclose(symmetric, symmetric.flip(0), atol=1e-6)
        longer = getattr(windows, name)(8, **options)
        assert torch.allclose(getattr(windows, name)(7, sym=False, **options), longer[:7])
        assert getattr(windows, name)(1, **options).tolist() == [1.0]
        assert getattr(windows, name)(0, **options).shape == (0,)
        with pytest.raises(ValueError, match="non-negative window length"):
            getattr(windows, name)(-1, **options)


def test_names_with_an_underscore_that_programs_use() -> None:
    left, right = torch.ones(2, 3).to(torch.int8) * 100, torch.ones(3, 2).to(torch.int8) * 100
    assert torch._int_mm(left, right).tolist() == [[30000, 30000]] * 2
    with pytest.raises(RuntimeError, match="int8 or uint8"):
        torch._int_mm(left.float(), right)
    x, bias = torch.randn(2, 3), torch.randn(2)
    for use_gelu, function in ((False, torch.relu), (True, torch.nn.functional.gelu)):
        result = torch._addmm_activation(bias, x, x.t(), use_gelu=use_gelu)
        torch.testing.assert_close(result, function(torch.addmm(bias, x, x.t())))
    assert torch._VF.relu(torch.tensor([-1.0])).tolist() == [0]
    y = torch.ones(2)
    before = y._cdata
    torch.utils.swap_tensors(y, torch.zeros(2))
    assert y._cdata != before


def test_running_statistics_alone() -> None:
    x, mean, var = torch.randn(8, 3, 2), torch.zeros(3), torch.ones(3)
    norm = torch.nn.BatchNorm1d(3)
    norm(x)
    batch_mean, batch_var = torch.batch_norm_update_stats(x, mean, var, 0.1)
    torch.testing.assert_close(mean, norm.running_mean)
    torch.testing.assert_close(var, norm.running_var)
    torch.testing.assert_close(batch_mean, x.mean((0, 2)))
    torch.testing.assert_close(batch_var, x.var((0, 2), correction=0))
    with pytest.raises(RuntimeError, match="at least one element"):
        torch.batch_norm_update_stats(torch.rand(0, 1), None, None, 0.1)
