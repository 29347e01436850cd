"""What libraries ask of PyTorch's compilers: functions run as they stand, and what cannot be done
says so when it is used, not when it is imported.
"""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn


def test_compiling_gives_back_what_was_compiled():
    net = nn.Linear(2, 2)
    assert torch.compile(net) is net and torch._dynamo.optimize("eager")(net) is net
    assert torch._dynamo.disable(net) is net
    assert not torch._dynamo.is_compiling() and not torch.compiler.is_compiling()
    assert not isinstance(net, torch._dynamo.OptimizedModule)
    before = torch._dynamo.config.cache_size_limit
    with torch._dynamo.config.patch(cache_size_limit=99):
        assert torch._dynamo.config.cache_size_limit == 99
    assert torch._dynamo.config.cache_size_limit == before


def test_a_traced_module_is_called_once_and_is_itself():
    calls = []

    def function(x, y=0):
        calls.append(x)
        return x + y

    assert torch.jit.trace(function, torch.ones(1)) is function and len(calls) == 1
    assert torch.jit.trace(function, example_kwarg_inputs={"x": torch.ones(1)}) is function
    with pytest.raises(RuntimeError, match="example_inputs"):
        torch.jit.trace(function)
    with pytest.raises(RuntimeError, match="eval mode"):
        torch.jit.freeze(nn.Linear(1, 1))


def test_torchscript_files_are_not_written(tmp_path):
    with pytest.raises(NotImplementedError, match="TorchScript files"):
        torch.jit.save(nn.Linear(1, 1), tmp_path / "model.pt")
    with pytest.raises(FileNotFoundError):
        torch.jit.load(tmp_path / "model.pt")
    (tmp_path / "model.pt").write_bytes(b"")
    with pytest.raises(RuntimeError, match="not a ZIP archive"):
        torch.jit.load(tmp_path / "model.pt")
    torch.save({"a": torch.ones(1)}, tmp_path / "weights.pt")
    with pytest.raises(RuntimeError, match=r"failed locating file constants\.pkl"):
        torch.jit.load(tmp_path / "weights.pt")


def test_tasks_of_the_jit_are_futures():
    assert torch.jit.wait(torch.jit.fork(lambda x: x + 1, 2)) == 3


def test_absent_names_can_be_imported_and_say_so_when_used():
    from flambeau.ao.quantization import QConfig

    assert not isinstance(3, torch.SymInt) and not isinstance(3, QConfig)
    with pytest.raises(NotImplementedError, match=r"QConfig: .*quantized"):
        QConfig(activation=None, weight=None)
    with pytest.raises(NotImplementedError, match="ONNX"):
        torch.onnx.export(nn.Linear(1, 1), torch.ones(1), "x.onnx")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = torch.ao.quantization.nothing


def test_models_made_for_quantization_run_in_floating_point():
    functional = torch.ao.nn.quantized.FloatFunctional()
    assert functional.add_relu(torch.tensor(-3.0), torch.tensor(1.0)).item() == 0.0
    assert torch.ao.quantization.QuantStub()(torch.ones(1)).item() == 1.0


def test_checks_raise_what_they_say():
    torch._check(True)
    for check, error in (
        (torch._check, RuntimeError),
        (torch._check_index, IndexError),
        (torch._check_value, ValueError),
        (torch._check_type, TypeError),
        (torch._check_not_implemented, NotImplementedError),
    ):
        with pytest.raises(error, match="because"):
            check(False, lambda: "because")
    with pytest.raises(TypeError, match="cond must be a bool"):
        torch._check(torch.tensor(True))
    with pytest.raises(RuntimeError):
        torch._check_tensor_all(torch.tensor([True, False]))


def test_symbolic_arithmetic_is_arithmetic():
    assert torch.sym_max(1, 2.0) == 2.0 and torch.sym_min(1, 2) == 1
    assert torch.sym_int(-2.7) == -2 and torch.sym_not(0) and torch.sym_sum([1, 2]) == 3


def test_switches_of_the_core_do_nothing():
    torch._C._jit_set_profiling_executor(False)
    torch._C._log_api_usage_once("a.b")
    assert torch._C._get_tracing_state() is None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = torch._C.nothing
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
    with torch.autocast("cpu"), torch._C._ExcludeDispatchKeyGuard(keys):
        assert not torch.is_autocast_enabled("cpu")


def test_futures_arrive_once_and_call_back():
    first, second = torch.futures.Future(), torch.futures.Future()
    doubled = first.then(lambda done: done.value() * 2)
    failed = second.then(lambda done: done.value())
    first.set_result(4)
    second.set_exception(ValueError("no"))
    assert doubled.wait() == 8 and first.done()
    with pytest.raises(RuntimeError, match="when running the callback: ValueError: no"):
        failed.wait()
    with pytest.raises(RuntimeError, match="completed Future as complete again"):
        first.set_result(5)
    assert torch.futures.wait_all([first, doubled]) == [4, 8]


def test_dtypes_that_are_not_here_can_be_named_and_are_refused_by_ops():
    assert torch.qint8 is torch.qint8 != torch.quint8
    assert str(torch.qint8) == "torch.qint8" and torch.bcomplex32.is_complex
    with pytest.raises(RuntimeError, match="no dtype of plain tensors"):
        torch.ones(1, dtype=torch.qint8)


def test_annotations_of_public_classes_can_be_evaluated():
    import inspect
    import typing

    for module in (nn, torch.optim, torch.utils.data, torch.distributions):
        for name in dir(module):
            found = getattr(module, name)
            if inspect.isclass(found):
                typing.get_type_hints(found)
                typing.get_type_hints(getattr(found, "forward", found.__init__))


def test_the_package_tells_how_it_was_built():
    assert "USE_MKL=OFF" in torch.__config__.show()
    assert torch.torch is torch and torch.legacy_contiguous_format is torch.contiguous_format


def test_helpers_that_optimizers_of_libraries_use():
    from flambeau.optim.optimizer import ParamsT, _use_grad_for_differentiable

    class Plain(torch.optim.Optimizer):
        def __init__(self, params: ParamsT) -> None:
            super().__init__(params, {"differentiable": False})

        @_use_grad_for_differentiable
        def step(self, closure=None):
            return torch.is_grad_enabled()

    assert Plain([nn.Parameter(torch.ones(1))]).step() is False


def test_a_class_that_only_behaves_like_a_distribution_can_have_divergences():
    class Own:
        pass

    @torch.distributions.kl.register_kl(Own, torch.distributions.Normal)
    def _(p, q):
        return 0.0

    with pytest.raises(TypeError):
        torch.distributions.kl.register_kl(3, Own)


def test_small_things_that_libraries_lean_on(tmp_path):
    import inspect

    import numpy

    # lightning, captum and botorch, in this order.
    assert torch._C._nn._parse_to("cpu", torch.float64)[:2] == (torch.device("cpu"), torch.float64)
    assert list(inspect.signature(nn.Linear(1, 1)).parameters) == ["args", "kwargs"]
    assert "in_features" in inspect.signature(nn.Linear).parameters
    parameter = nn.Parameter(torch.ones(2))
    with torch.no_grad():
        assert parameter.numpy().tolist() == numpy.asarray(parameter).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="requires grad"):
        parameter.numpy()
    # kornia, torch_geometric and safetensors.
    assert not torch.is_autocast_enabled("mps")
    assert torch.utils.data.sampler.Sampler is torch.utils.data.Sampler
    (tmp_path / "bytes").write_bytes(bytes([1, 2, 3]))
    assert torch.UntypedStorage.from_file(str(tmp_path / "bytes"), False, 2).tolist() == [1, 2]


def test_a_module_whose_call_is_python_has_that_signature():
    import inspect

    class Own(nn.Module):
        def __call__(self, x, flag=True):
            return x

    assert list(inspect.signature(Own()).parameters) == ["x", "flag"]
