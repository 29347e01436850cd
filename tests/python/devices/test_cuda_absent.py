"""torch.cuda on a machine without CUDA: importing works, asking is answered, using is refused."""

from __future__ import annotations

import pytest

import flambeau as torch

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")


def test_questions_have_answers() -> None:
    assert torch.cuda.device_count() == 0 and not torch.cuda.is_initialized()
    assert not torch.cuda.is_current_stream_capturing()
    assert torch.cuda.memory_stats() == {} and torch.cuda.host_memory_stats() == {}
    assert torch.cuda.memory_snapshot() == [] and torch.cuda.get_arch_list() == []
    assert not torch.cuda.is_tf32_supported() and not torch.cuda._is_in_bad_fork()
    torch.cuda.empty_cache()
    torch.cuda.ipc_collect()
    torch.cuda._lazy_call(lambda: pytest.fail("there is no device to call it for"))


@pytest.mark.parametrize(
    "use",
    [
        torch.cuda.CUDAGraph,
        torch.cuda.current_device,
        torch.cuda.graph_pool_handle,
        torch.cuda.Stream,
        lambda: torch.zeros(1, device="cuda"),
        lambda: torch.cuda.nvtx.range_push("text"),
    ],
)
def test_using_a_device_is_refused_in_one_sentence(use: object) -> None:
    with pytest.raises(RuntimeError, match=r"CUDA|NVIDIA driver") as caught:
        use()  # type: ignore[operator]
    assert "\n" not in str(caught.value)
