"""Extension modules in C++: what is built when a program runs, and by setuptools, and what crosses
pybind11.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
from flambeau.utils import cpp_extension

pytestmark = pytest.mark.slow  # compilers take their time

SOURCE = """
torch::Tensor f(torch::Tensor x) { return x.sin() + 1; }
torch::Tensor same(const torch::Tensor& x) { return x; }
std::optional<torch::Tensor> maybe(std::optional<torch::Tensor> x) { return x; }
torch::Tensor undefined() { return {}; }
std::vector<torch::Tensor> reversed(std::vector<torch::Tensor> x) {
  return {x.rbegin(), x.rend()};
}
std::tuple<torch::Tensor, double> pair(torch::Tensor x, double y) { return {x, y}; }
torch::ScalarType dtype(torch::ScalarType x) { return x; }
torch::Device device(torch::Device x) { return x; }
torch::Scalar scalar(torch::Scalar x) { return x; }
int64_t total(torch::IntArrayRef sizes) {
  int64_t sum = 0;
  for (const int64_t size : sizes) sum += size;
  return sum;
}
torch::Tensor draw(torch::Generator generator) { return torch::rand({2}, generator); }
void fail(int kind) {
  TORCH_CHECK_INDEX(kind != 0, "an index");
  TORCH_CHECK_VALUE(kind != 1, "a value");
  TORCH_CHECK_TYPE(kind != 2, "a type");
  TORCH_CHECK_NOT_IMPLEMENTED(kind != 3, "no code");
  TORCH_CHECK(kind != 4, "kind ", kind);
  torch::ones({2}) + torch::ones({3});
}
"""
FUNCTIONS = "f same maybe undefined reversed pair dtype device scalar total draw fail".split()


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = str(tmp_path_factory.mktemp("inline"))
    return cpp_extension.load_inline(
        "inline_ops", SOURCE, functions=FUNCTIONS, build_directory=folder
    )


def test_function_is_part_of_the_graph(module: Any) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = module.f(x)
    y.sum().backward()
    assert torch.equal(y, x.sin() + 1)
    assert torch.equal(x.grad, x.cos())


def test_tensors_keep_their_object(module: Any) -> None:
    x = torch.nn.Parameter(torch.ones(2))
    x.mark = "mine"
    assert module.same(x) is x
    assert module.maybe(x) is x
    assert module.maybe(None) is None
    assert module.undefined() is None
    y = torch.zeros(1)
    first, second = module.reversed([x, y])
    assert first is y and second is x
    assert module.pair(x, 2.5) == (x, 2.5)


def test_small_values_cross(module: Any) -> None:
    assert module.dtype(torch.int32) is torch.int32
    assert module.device(torch.device("cuda:1")) == torch.device("cuda", 1)
    assert [module.scalar(x) for x in (3, 2.5, True, 1j)] == [3, 2.5, True, 1j]
    assert type(module.scalar(True)) is bool
    assert module.total((1, 2)) == module.total([1, 2]) == module.total(torch.Size([3])) == 3
    draws = [module.draw(torch.Generator().manual_seed(3)) for _ in range(2)]
    assert torch.equal(*draws)
    assert torch.equal(draws[0], torch.rand(2, generator=torch.Generator().manual_seed(3)))


@pytest.mark.parametrize(
    "call",
    ["f(None)", "f(3)", "dtype(float)", "device('cpu')", "scalar('x')", "total(3)", "draw(1)"],
)
def test_other_types_are_refused(module: Any, call: str) -> None:
    with pytest.raises(TypeError, match="incompatible function arguments"):
        eval(f"module.{call}")


@pytest.mark.parametrize(
    ("kind", "error", "says"),
    [
        (0, IndexError, "an index"),
        (1, ValueError, "a value"),
        (2, TypeError, "a type"),
        (3, NotImplementedError, "no code"),
        (4, RuntimeError, "kind 4"),
        (5, RuntimeError, r"The size of tensor a \(2\) must match the size of tensor b \(3\)"),
    ],
)
def test_errors_keep_their_class(module: Any, kind: int, error: Any, says: str) -> None:
    with pytest.raises(error, match=says) as raised:
        module.fail(kind)
    assert raised.type is error


def run_as_torch(folder: Path, *arguments: str) -> str:
    """What a program prints in which Flambeau stands for torch."""
    package = os.path.dirname(os.path.dirname(torch.__file__))
    done = subprocess.run(
        [sys.executable, "-m", "flambeau", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": package},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_changed_sources_are_built_again(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    text = "#include <pybind11/pybind11.h>\nint f() { return %d; }"
    plain = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("f", &f); }'
    source = tmp_path / "versions.cpp"

    def load(number: int) -> Any:
        source.write_text(text % number + "\n" + plain)
        return cpp_extension.load("versions", str(source))

    first = load(1)
    assert load(1) is first
    second = load(2)
    assert (first.f(), second.f()) == (1, 2)
    assert second.__name__ == "versions_v1"
    source.write_text("int f() { return nothing; }")
    with pytest.raises(RuntimeError, match=r"(?s)Error building extension 'versions'.*nothing"):
        cpp_extension.load("versions", str(source))
    assert sorted(path.name for path in (tmp_path / "versions").glob("*.so*")) == [
        "versions.so",
        "versions_v1.so",
    ]


def test_builds_without_ninja(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(cpp_extension.paths, "is_ninja_available", lambda: False)
    source = tmp_path / "program.cpp"
    source.write_text("int main() { return 0; }")
    program = cpp_extension.load(
        "program", str(source), build_directory=str(tmp_path), is_standalone=True
    )
    assert subprocess.run([program]).returncode == 0


SETUP = """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension
setup(name="doubled", ext_modules=[CppExtension("doubled", ["a.cpp", "b.cpp"],
      extra_compile_args={"cxx": ["-std=c++17", "-DTIMES=2"]}, libraries=["c10"])],
      cmdclass={"build_ext": BuildExtension.with_options(no_python_abi_suffix=True)})
"""


def test_setup_builds_what_torch_would(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text(SETUP)
    (tmp_path / "a.cpp").write_text(
        "#include <torch/extension.h>\nat::Tensor times(at::Tensor x);\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("times", &times); }\n'
    )
    (tmp_path / "b.cpp").write_text(
        "#include <torch/types.h>\nat::Tensor times(at::Tensor x) { return x * TIMES; }\n"
    )
    run_as_torch(tmp_path, "setup.py", "build_ext", "--inplace")
    assert (tmp_path / "doubled.so").exists()
    program = "import torch, doubled; print(doubled.times(torch.ones(2)))"
    assert run_as_torch(tmp_path, "-c", program) == "tensor([2., 2.])\n"
