"""The host waits for the device only where it must: each op is called, with the samples of
tests/ops, in a mode in which waiting is an error."""

from __future__ import annotations

import warnings

import pytest
from harness import build, resolve
from samples import ENTRIES, Op

import flambeau as torch

# What may wait, and why.
READS = "allclose cpu equal is_nonzero item"
TAKES_FROM_THE_HOST = """
    as_tensor asarray combinations ctc_loss kaiser_window new_tensor tensor
"""
SHAPE_DEPENDS_ON_DATA = """
    argwhere bincount histc histogram histogramdd masked_select nonzero
    repeat_interleave unique unique_consecutive
"""
REFUSES_DATA = """
    cov fake_quantize_per_channel_affine normal cholesky_inverse inverse
    matrix_exp matrix_power nuclear_norm pinverse svd _gaussian_nll_loss
"""
WAITING = {*READS.split(), *TAKES_FROM_THE_HOST.split(), *SHAPE_DEPENDS_ON_DATA.split()}
WAITING |= set(REFUSES_DATA.split())


def may_wait(entry: Op) -> bool:
    # A matrix without such factors is an error, which the op has to know of.
    return entry.name in WAITING or entry.name.startswith("linalg_")


@pytest.mark.unwatched
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_ops_do_not_wait_for_the_device(dtype: str) -> None:
    waited = []
    for entry in ENTRIES.values():
        for one, _ in entry.cases((dtype,)):
            if may_wait(entry):
                break
            try:
                sample, function = build(torch, entry, one, dtype, "cuda"), resolve(torch, entry)
            except Exception:  # there is no such tensor: tests/ops asks about that
                continue
            torch.cuda.set_sync_debug_mode("error")
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    function(*sample.args, **sample.kwargs)
            except RuntimeError as error:
                if "synchronizing" in str(error):
                    waited.append(f"{entry.name}{one}")
            except Exception:
                pass  # a call that is refused, which is no question here
            finally:
                torch.cuda.set_sync_debug_mode("default")
    assert not waited, waited


@pytest.mark.unwatched
def test_what_is_looked_at_on_the_device_can_be_captured() -> None:
    weights = torch.tensor([[0.0, 1.0, 0.0]] * 4, device="cuda")
    classes = torch.tensor([0, 2, 1], device="cuda")
    torch.multinomial(weights, 1)
    torch.nn.functional.one_hot(classes, 3)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        drawn = torch.multinomial(weights, 5, replacement=True)
        first = torch.multinomial(weights, 1)
        hot = torch.nn.functional.one_hot(classes, 3)
        quotients = classes // (classes + 1)
        padded = torch.nn.functional.pad(weights[None], (2, 2), mode="reflect")
    weights.copy_(torch.tensor([1.0, 0.0, 0.0], device="cuda"))
    classes.fill_(1)
    graph.replay()
    assert drawn.eq(0).all().item() and first.eq(0).all().item()
    assert hot.tolist() == [[0, 1, 0]] * 3 and quotients.tolist() == [0, 0, 0]
    assert padded[0, 0].tolist() == [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    weights[1, 2] = -1
    graph.replay()
    with pytest.raises(IndexError, match=r"found by multinomial at element 2 of 3 of row 1"):
        torch.cuda.synchronize()
