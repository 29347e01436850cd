"""`python -m flambeau` runs programs written for PyTorch: torch means Flambeau, wherever it is
imported from, and what is missing is said to be missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE_FOLDER = str(Path(__file__).parents[3] / "python")


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What `python -m flambeau` with these arguments does."""
    return subprocess.run(
        [sys.executable, "-m", "flambeau", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": PACKAGE_FOLDER},
    )


def output(*arguments: str, cwd: Path | None = None) -> str:
    result = run(*arguments, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_every_way_to_import_a_module_gives_the_one_module():
    program = """
import sys
import torch, flambeau
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torch import optim
import torch.optim.lr_scheduler
assert torch is flambeau
assert nn is flambeau.nn and F is flambeau.nn.functional is sys.modules["torch.nn.functional"]
assert DataLoader is flambeau.utils.data.DataLoader
assert optim.lr_scheduler is torch.optim.lr_scheduler
assert nn.__name__ == "flambeau.nn" and nn.__spec__.name == "flambeau.nn"
print(isinstance(nn.Linear(1, 1).weight, torch.Tensor))
"""
    assert output("-c", program) == "True"


def test_functions_named_as_their_modules_stay_functions():
    program = """
import torch
import torch.autograd.gradcheck
import torch.nn.parallel.replicate
from torch.nn.utils.weight_norm import WeightNorm
print(callable(torch.autograd.gradcheck), callable(torch.nn.parallel.replicate))
print(callable(torch.nn.utils.weight_norm))
"""
    assert output("-c", program).split() == ["True"] * 3


def test_a_script_sees_its_arguments_its_folder_and_its_name(tmp_path: Path):
    (tmp_path / "neighbour.py").write_text("import torch\nanswer = torch.arange(3).sum().item()\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, neighbour\nprint(__name__, sys.argv[1:], neighbour.answer, __file__)\n"
    )
    expected = f"__main__ ['--lr', '0.1'] 3 {script}"
    assert output(str(script), "--lr", "0.1") == expected


def test_a_module_runs_as_with_dash_m(tmp_path: Path):
    (tmp_path / "tool.py").write_text(
        "import sys, torch\nprint(__name__, sys.argv[1:], torch.ones(2).sum().item())\n"
    )
    assert output("-m", "tool", "x", cwd=tmp_path) == "__main__ ['x'] 2.0"


@pytest.mark.parametrize(
    "line, error",
    [
        ("import torch.no_such_module", "No module named 'torch.no_such_module'"),
        ("from torch.nn import NoSuchLayer", "cannot import name 'NoSuchLayer' from 'flambeau.nn'"),
        ("import torch; torch.no_such_op", "module 'flambeau' has no attribute 'no_such_op'"),
    ],
)
def test_a_missing_name_raises_an_error_that_says_so(line: str, error: str):
    result = run("-c", line)
    assert result.returncode == 1
    assert error in result.stderr.splitlines()[-1]


def test_an_error_inside_a_module_is_not_taken_for_a_missing_module():
    program = """
import flambeau, sys
sys.modules["flambeau.broken"] = None
try:
    import torch.broken
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert output("-c", program) == "torch.broken"


@pytest.mark.parametrize("method", ("spawn", "forkserver"))
def test_processes_that_start_afresh_import_the_same_torch(method: str, tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        f"""
import multiprocessing
import torch

def name(_):
    return torch.__spec__.name

if __name__ == "__main__":
    with multiprocessing.get_context("{method}").Pool(1) as pool:
        print(pool.map(name, [0]))
"""
    )
    assert output(str(script)) == "['flambeau']"


def test_the_exit_status_is_that_of_the_program(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text("raise SystemExit(7)\n")
    assert run(str(script)).returncode == 7
    assert run("no_such_script.py").returncode == 2
    assert run().returncode == 2


def test_libraries_find_the_version_of_torch_without_importing_it():
    program = "import importlib.metadata as m; print(m.version('torch'), m.version('pytest'))"
    version, _ = output("-c", program).split()
    assert version.startswith("2.")


def test_libraries_can_import_modules_of_which_only_the_name_is_here():
    program = """
import torch
from torch.distributed import rpc
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.tensor import DTensor, Replicate, Shard
import torch.distributed.algorithms.ddp_comm_hooks.default_hooks as hooks
print(torch.__name__, isinstance(torch.ones(1), DTensor), Shard(1).is_shard(1), hasattr(rpc, "api"))
try:
    FSDP(torch.nn.Linear(1, 1))
except NotImplementedError as error:
    print(error)
try:
    import torch.nothing
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert output("-c", program).splitlines() == [
        "torch False True False",
        "torch.distributed.fsdp.FullyShardedDataParallel: Flambeau does not split models or "
        "tensors over processes",
        "torch.nothing",
    ]


def test_a_module_loaded_late_is_not_run_twice():
    program = """
import torch
import torch.fx
import torch.distributions, torch.utils.tensorboard
import flambeau
print(torch.fx is flambeau.fx, torch.fx.node.Node is flambeau.fx.Node)
print(torch.distributions is flambeau.distributions)
"""
    assert output("-c", program).split() == ["True", "True", "True"]


def test_functorch_is_a_part_of_it():
    program = "import functorch, torch; print(functorch.vmap.__wrapped__ is torch.func.vmap)"
    assert output("-c", program).split() == ["True"]


def test_a_program_is_read_from_the_standard_input():
    made = subprocess.run(
        [sys.executable, "-m", "flambeau", "-", "an argument"],
        input="import sys, torch; print(sys.argv, torch.ones(2).sum().item())",
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": PACKAGE_FOLDER},
    )
    assert made.stdout.strip() == "['-', 'an argument'] 2.0", made.stderr


def test_modules_of_the_core_can_be_imported():
    program = """
import torch._C._functorch
from torch._C._functorch import get_unwrapped, is_batchedtensor
from torch._C._autograd import SavedTensor
from torch._C._nn import _parse_to, flatten_dense_tensors
from torch._C._profiler import ProfilerActivity
print(torch._C._functorch.is_batchedtensor(torch.ones(2)), _parse_to("cpu")[0])
def told(x):
    print(is_batchedtensor(x), get_unwrapped(x).shape)
    return x
torch.vmap(told)(torch.ones(3, 2))
"""
    assert output("-c", program).splitlines() == ["False cpu", "True torch.Size([3, 2])"]
    missing = run("-c", "import torch._C._nothing")
    assert "No module named 'torch._C._nothing'" in missing.stderr


def test_programs_are_compiled_without_statements_about_the_future(tmp_path: Path):
    program = "def f(x: int): ...\nprint(f.__annotations__['x'])"
    script = tmp_path / "script.py"
    script.write_text(program)
    assert output("-c", program) == output(str(script)) == "<class 'int'>"


def test_members_of_what_is_absent_can_be_mentioned():
    program = """
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, StateDictType
from torch.distributed.tensor import DTensor
assert torch.distributed.fsdp.StateDictType is StateDictType
assert torch.distributed.fsdp.ShardingStrategy._HYBRID_SHARD_ZERO2.__name__[0] == "_"
assert torch.distributed.device_mesh.DeviceMesh.__name__ == "DeviceMesh"
def save(kind=StateDictType.FULL_STATE_DICT): return kind
assert save() is StateDictType.FULL_STATE_DICT
class Wrapped(FSDP, torch.nn.Module): pass
assert not hasattr(Wrapped, "nothing") and not isinstance(torch.ones(1), DTensor)
try:
    DTensor.from_local(torch.ones(1))
except NotImplementedError as error:
    print(error)
"""
    assert output("-c", program).startswith("torch.distributed.tensor.DTensor.from_local: Flambeau")
