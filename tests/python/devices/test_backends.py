"""Versions, settings of backends, and what programs ask about compilers and other processes."""

from __future__ import annotations

import pytest

import flambeau as torch


def test_the_version_compares_by_its_numbers():
    version = torch.__version__
    assert version >= "2.9" and version > (1, 13) and version < "3.0.0a1" and version != "2.0"
    assert not version < "2.9.1" and version == version[:4] and "flambeau" in version
    assert torch.version.__version__ is version and torch.version.cuda is None
    assert isinstance(version, str) and int(version.split(".")[0]) == 2


def test_settings_hold_within_a_context_and_are_put_back():
    cudnn = torch.backends.cudnn
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (True, False, False)
    with cudnn.flags(enabled=False, benchmark=True):
        assert (cudnn.enabled, cudnn.benchmark) == (False, True)
    assert (cudnn.enabled, cudnn.benchmark) == (True, False)
    before = cudnn.set_flags(_benchmark=True)
    assert cudnn.benchmark and before[1] is False
    cudnn.set_flags(*before)
    with torch.backends.cuda.sdp_kernel(enable_flash=False):
        assert not torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()


def test_what_is_there_is_told_truly():
    assert torch.backends.mkldnn.is_available() and torch.backends.openmp.is_available()
    assert not torch.backends.mps.is_available() and not torch.backends.mkl.is_available()
    assert torch.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2")
    assert torch.distributed.is_available() and not torch.distributed.is_initialized()
    with pytest.raises(NotImplementedError, match="one process"):
        torch.distributed.TCPStore("localhost", 1)


def test_the_precision_of_products_is_one_of_three_words():
    assert torch.get_float32_matmul_precision() == "highest"
    torch.set_float32_matmul_precision("high")
    assert torch.backends.cuda.matmul.allow_tf32
    torch.set_float32_matmul_precision("highest")
    assert not torch.backends.cuda.matmul.allow_tf32
    with pytest.raises(RuntimeError, match="precision"):
        torch.set_float32_matmul_precision("low")


def test_the_precision_of_float32_is_said_of_all_products_or_of_some():
    backends = torch.backends
    conv, rnn, matmul = backends.cudnn.conv, backends.cudnn.rnn, backends.cuda.matmul
    assert (backends.fp32_precision, conv.fp32_precision, rnn.fp32_precision) == (
        "none",
        "tf32",
        "tf32",
    )
    assert not matmul.allow_tf32 and backends.cudnn.allow_tf32
    try:
        conv.fp32_precision = rnn.fp32_precision = matmul.fp32_precision = "none"
        backends.fp32_precision = "ieee"
        assert conv.fp32_precision == matmul.fp32_precision == "ieee"
        conv.fp32_precision = "tf32"  # what is said of a part counts there
        assert (conv.fp32_precision, rnn.fp32_precision) == ("tf32", "ieee")
        with pytest.raises(RuntimeError, match="different precisions"):
            _ = backends.cudnn.allow_tf32
        matmul.fp32_precision = "tf32"
        assert matmul.allow_tf32
        with pytest.raises(RuntimeError, match="Unknown precision: exact"):
            matmul.fp32_precision = "exact"
    finally:
        backends.fp32_precision = conv.fp32_precision = matmul.fp32_precision = "none"
    assert backends.cudnn.allow_tf32 and not matmul.allow_tf32


def test_names_that_programs_import_from_cuda_are_there():
    from flambeau.cuda._utils import _get_device_index
    from flambeau.cuda.amp.autocast_mode import custom_fwd
    from flambeau.cuda.amp.grad_scaler import GradScaler, OptState

    assert _get_device_index(3) == 3 and OptState.READY.value == 0
    assert custom_fwd is torch.cuda.amp.custom_fwd and GradScaler is torch.cuda.amp.GradScaler
    assert torch.cuda.Stream.priority_range() == (0, -1)
    assert torch.backends.cuda.SDPBackend is torch.nn.attention.SDPBackend


def test_determinism_is_demanded_and_reported():
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    torch.set_deterministic_debug_mode("error")
    assert torch.get_deterministic_debug_mode() == 2
    torch.use_deterministic_algorithms(False)
    assert not torch.are_deterministic_algorithms_enabled()
    with pytest.raises(RuntimeError, match="debug_mode"):
        torch.set_deterministic_debug_mode("sometimes")


def test_marks_for_compilers_leave_functions_as_they_are():
    def function(x: int) -> int:
        return x + 1

    assert torch.jit.ignore(function) is function and torch.jit.unused(function) is function
    assert torch.jit.ignore(drop=True)(function) is function
    assert torch.compiler.disable(function) is function
    assert torch.compiler.disable()(function) is function
    assert not torch.jit.is_scripting() and not torch.compiler.is_compiling()
    assert torch.jit.isinstance([1, 2], list[int]) and not torch.jit.isinstance([1, "a"], list[int])
    assert torch.jit.isinstance({"a": (1, 2.0)}, dict[str, tuple[int, float]])
    assert torch.compile(function, mode="max-autotune")(1) == 2
    assert torch.compile(dynamic=True)(function) is function
    assert torch.jit.script(function)(1) == 2
    with pytest.raises(RuntimeError, match="both"):
        torch.compile(function, mode="default", options={})
    assert torch.jit.trace(function, (1,))(2) == 3


def test_the_environment_is_reported():
    from flambeau.utils import collect_env

    report = collect_env.get_pretty_env_info()
    assert f"Flambeau version: {torch.__version__}" in report and "Python version: 3" in report
    assert not torch.onnx.is_in_onnx_export()
