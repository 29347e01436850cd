"""DataParallel, scatter and gather, the accelerator's questions, and hints about attention."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.nn.attention import SDPBackend, sdpa_kernel
from flambeau.nn.parallel import gather, scatter, scatter_kwargs

CPU = torch.device("cpu")


def test_without_devices_data_parallel_calls_the_module():
    net = torch.nn.Linear(3, 2)
    x = torch.randn(4, 3)
    parallel = torch.nn.DataParallel(net)
    if not torch.cuda.is_available():
        assert torch.equal(parallel(x), net(x))
    assert list(parallel.state_dict()) == ["module.weight", "module.bias"]


def test_arguments_are_split_and_results_put_together():
    batch = {"x": torch.arange(5), "n": (torch.ones(4, 2), "name")}
    parts = scatter(batch, [CPU, CPU])
    assert [part["x"].tolist() for part in parts] == [[0, 1, 2], [3, 4]]
    assert parts[1]["n"][1] == "name" and parts[0]["n"][0].shape == (2, 2)
    whole = gather([{"x": part["x"]} for part in parts], CPU)
    assert whole["x"].tolist() == [0, 1, 2, 3, 4]
    positional, named = scatter_kwargs((torch.arange(4),), {"scale": 2}, [CPU, CPU])
    assert len(positional) == 2 and named[1] == {"scale": 2}


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks about a machine without one")
def test_a_machine_without_an_accelerator_says_so():
    assert not torch.accelerator.is_available() and torch.accelerator.device_count() == 0
    assert torch.accelerator.current_accelerator() is None
    with pytest.raises(RuntimeError, match="none is available"):
        torch.accelerator.synchronize()


def test_hints_about_attention_hold_within_their_context():
    with sdpa_kernel(SDPBackend.MATH):
        assert not torch.backends.cuda.flash_sdp_enabled()
        assert torch.backends.cuda.math_sdp_enabled()
        q = torch.randn(1, 2, 3, 4)
        assert torch.nn.functional.scaled_dot_product_attention(q, q, q).shape == q.shape
    assert torch.backends.cuda.flash_sdp_enabled()


def test_special_functions_are_the_ops_of_the_core():
    x = torch.tensor([0.5, 2.0])
    assert torch.equal(torch.special.expit(x), torch.sigmoid(x))
    assert torch.equal(torch.special.erf(x), torch.erf(x)) and "expit" in torch.special.__all__
    with pytest.raises(AttributeError, match="no_such"):
        _ = torch.special.no_such
