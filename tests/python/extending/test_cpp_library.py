"""Operators that are registered in C++ with TORCH_LIBRARY."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
from flambeau.utils import cpp_extension

pytestmark = pytest.mark.slow  # compilers take their time

SOURCE = """
#include <torch/library.h>
namespace {
torch::Tensor twice(const torch::Tensor& x) { return x * 2; }
torch::Tensor twice_meta(const torch::Tensor& x) { return torch::empty_like(x); }
void add_to(const torch::Tensor& x, torch::Tensor& out, double by) { out.add_(x * by); }
std::tuple<torch::Tensor, std::vector<torch::Tensor>, int64_t> several(
    torch::Tensor x, at::IntArrayRef sizes, std::optional<torch::Tensor> maybe,
    std::string name, std::optional<double> real, bool flag, at::ScalarType dtype) {
  TORCH_CHECK_VALUE(name != "wrong", "a wrong name");
  auto parts = x.to(dtype).split(sizes[0]);
  return {maybe ? *maybe : x, parts, real ? static_cast<int64_t>(*real) : -1};
}
torch::Tensor total(at::TensorList all) {
  auto sum = torch::zeros_like(all[0]);
  for (const auto& each : all) sum = sum + each;
  return sum;
}
torch::Tensor via_dispatcher(const torch::Tensor& x) {
  static auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("cpp_ops::twice", "").typed<decltype(twice)>();
  return op.call(x);
}
int64_t count() { return 7; }
}  // namespace
TORCH_LIBRARY(cpp_ops, m) {
  m.def("twice(Tensor x) -> Tensor");
  m.def("add_to(Tensor x, Tensor(a!) out, *, float by=1.0) -> ()");
  m.def("several(Tensor x, int[] sizes, Tensor? maybe=None, str name='none', float? real=None, "
        "bool flag=False, ScalarType dtype=float64) -> (Tensor, Tensor[], int)", several);
  m.def("total", &total);
  m.def("composed(Tensor x) -> Tensor");
  m.def("via_dispatcher", TORCH_FN(via_dispatcher));
}
TORCH_LIBRARY_IMPL(cpp_ops, CPU, m) {
  m.impl("twice", &twice);
  m.impl("add_to", TORCH_FN(add_to));
}
TORCH_LIBRARY_IMPL(cpp_ops, Meta, m) { m.impl("twice", &twice_meta); }
TORCH_LIBRARY_FRAGMENT(cpp_ops, m) {
  m.impl("composed", torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd,
                                     [](const torch::Tensor& x) { return x.sin() + 1; }));
}
static auto registry = torch::RegisterOperators().op("cpp_ops::count", &count);
"""


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("library")
    source = folder / "cpp_ops.cpp"
    source.write_text(SOURCE)
    cpp_extension.load("cpp_ops", str(source), build_directory=str(folder), is_python_module=False)
    return torch.ops.cpp_ops


def test_kernels_are_called_by_device(ops: Any) -> None:
    x = torch.ones(2)
    assert torch.equal(ops.twice(x), x * 2)
    assert torch.equal(ops.twice.default(x), x * 2)
    assert torch.equal(ops.via_dispatcher(x), x * 2)
    assert ops.twice(torch.ones(2, 3, device="meta")).shape == (2, 3)
    assert str(ops.twice.default._schema) == "cpp_ops::twice(Tensor x) -> Tensor"


def test_arguments_and_results_keep_their_types(ops: Any) -> None:
    x = torch.arange(3)
    same, parts, number = ops.several(x, [2])
    assert same is x and number == -1
    assert [part.tolist() for part in parts] == [[0.0, 1.0], [2.0]]
    assert parts[0].dtype is torch.float64
    other = torch.zeros(1)
    first, parts, number = ops.several(x, (1,), other, real=3, flag=True, dtype=torch.int32)
    assert first is other and number == 3 and parts[0].dtype is torch.int32
    assert torch.equal(ops.total([x, x, x]), x * 3)
    assert ops.count() == 7


def test_writes_reach_the_argument(ops: Any) -> None:
    out = torch.ones(2)
    assert ops.add_to(torch.ones(2), out, by=2) is None
    assert torch.equal(out, torch.full((2,), 3.0))


def test_errors_keep_their_class(ops: Any) -> None:
    with pytest.raises(ValueError, match="a wrong name"):
        ops.several(torch.ones(1), [1], name="wrong")
    with pytest.raises(RuntimeError, match="missing value for argument 'x'"):
        ops.twice()
    with pytest.raises(RuntimeError, match="Expected Tensor but got Int"):
        ops.twice(3)


def test_derivatives_are_recorded_or_registered(ops: Any) -> None:
    x = torch.ones(2, requires_grad=True)
    ops.composed(x).sum().backward()
    assert torch.equal(x.grad, x.cos())
    with pytest.raises(RuntimeError, match="no autograd formula"):
        ops.twice(x).sum().backward()
    torch.library.register_autograd("cpp_ops::twice", lambda ctx, grad: grad * 2)
    x.grad = None
    ops.twice(x).sum().backward()
    assert torch.equal(x.grad, torch.full((2,), 2.0))


def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    source = tmp_path / "refused.cpp"
    source.write_text(
        "#include <torch/library.h>\nstruct Held : torch::CustomClassHolder {};\n"
        'TORCH_LIBRARY(cpp_refused, m) { m.class_<Held>("Held"); }'
    )
    with pytest.raises(RuntimeError, match=r'cpp_refused: class_\("Held"\): .* no classes'):
        cpp_extension.load(
            "refused", str(source), build_directory=str(tmp_path), is_python_module=False
        )
