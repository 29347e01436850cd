"""flambeau.cuda where there is no device: it can be imported and asked, and says what is missing.

Each test runs in a process that sees no device, so that it means the same on every machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest


def run_without_device(program: str) -> str:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", "import flambeau as torch\n" + textwrap.dedent(program)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_touches_no_driver() -> None:
    out = run_without_device(
        """
        import flambeau.cuda
        torch.manual_seed(0)
        maps = open("/proc/self/maps").read()
        print("libcuda" in maps, "libflambeau_cuda" in maps, torch.cuda.is_initialized())
        """
    )
    assert out.split() == ["False", "False", "False"]


def test_questions_have_answers_without_a_device() -> None:
    run_without_device(
        """
        assert torch.cuda.is_available() is False
        assert torch.cuda.device_count() == 0
        assert torch.cuda.memory_allocated() == torch.cuda.memory_reserved() == 0
        assert torch.cuda.memory_stats() == {}
        assert torch.cuda.default_generators == ()
        assert torch.cuda.get_rng_state_all() == []
        assert torch.cuda.is_bf16_supported() is False
        assert repr(torch.cuda.Event()) == "<torch.cuda.Event uninitialized>"
        torch.cuda.empty_cache()
        torch.cuda.manual_seed(1)
        torch.cuda.manual_seed_all(1)
        torch.cuda.set_device(-1)
        with torch.cuda.device(-1), torch.cuda.stream(None):
            pass
        """
    )


@pytest.mark.parametrize(
    "call",
    [
        "torch.cuda.current_device()",
        "torch.cuda.set_device(0)",
        "torch.cuda.synchronize()",
        "torch.cuda.get_device_name()",
        "torch.cuda.current_stream()",
        "torch.cuda.Stream()",
        "torch.cuda.Event().record()",
        "torch.cuda.get_rng_state()",
        "torch.cuda.mem_get_info()",
        "torch.zeros(1, device='cuda')",
        "torch.ones(1).cuda()",
        "torch.ones(1).to('cuda:0')",
        "torch.Generator('cuda')",
        "torch.nn.Linear(1, 1).cuda()",
    ],
)
def test_using_a_device_that_is_not_there_raises(call: str) -> None:
    run_without_device(
        f"""
        try:
            {call}
        except RuntimeError as error:
            assert "CUDA" in str(error) or "NVIDIA" in str(error), error
        else:
            raise AssertionError("no error")
        """
    )
