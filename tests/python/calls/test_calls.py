"""How calls reach ops: keywords out of data, devices with a number."""

from __future__ import annotations

import json

import pytest

import flambeau as torch


def test_keywords_out_of_a_parsed_file_are_known() -> None:
    options = json.loads('{"dim": 1, "keepdim": true}')
    assert torch.ones(2, 3).sum(**options).shape == (2, 1)
    assert torch.zeros(2, **json.loads('{"requires_grad": true}')).requires_grad


def test_the_first_cpu_is_the_cpu() -> None:
    x = torch.ones(3, device="cpu:0")
    assert x.device == torch.device("cpu")
    assert (x + torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert x.to("cpu:0") is x


def test_histogramdd_names_its_results() -> None:
    found = torch.histogramdd(torch.rand(10, 2), [2, 3], range=[0.0, 1.0, 0.0, 1.0])
    assert found.hist.shape == (2, 3)
    assert [edge.numel() for edge in found.bin_edges] == [3, 4]


def test_a_window_beyond_all_bounds_is_refused() -> None:
    x = torch.ones(1, 2, 3)
    with pytest.raises(RuntimeError, match="effective kernel size overflows"):
        torch.nn.functional.max_pool1d(
            x, 8608480567731124087, padding=1250999896764, dilation=1250999896764
        )


def test_matrices_with_infinities_do_not_hang() -> None:
    x = torch.full((3, 4), 3.0)
    x[:, 0] = -float("inf")
    assert torch.linalg.svd(x).S.isnan().all()
    assert torch.linalg.svdvals(torch.stack([x, torch.ones(3, 4)]))[1].isfinite().all()
    with pytest.raises(torch.linalg.LinAlgError, match="non-finite"):
        torch.linalg.svd(x * float("nan"))
    with pytest.raises(torch.linalg.LinAlgError, match="ill-conditioned"):
        torch.linalg.eigh(x[:, :3])


def test_polygamma_in_place_has_a_derivative() -> None:
    x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    x.clone().polygamma_(1).sum().backward()
    assert x.grad is not None
    assert torch.allclose(x.grad, torch.polygamma(2, x.detach()))


def test_degrees_of_millions_and_endless_windows_end() -> None:
    x = torch.tensor([0.5])
    assert torch.special.legendre_polynomial_p(x, 1e300).isnan().all()
    assert torch.special.chebyshev_polynomial_t(x, 40.0).abs().item() <= 1.0
    with pytest.raises(RuntimeError, match="window too large"):
        torch.col2im(torch.ones(4, 2), [2, 2], [2**40, 2**40], [2**40, 1], [5, 5], [1, 1])
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, 4).embedding_renorm_(torch.zeros(2, dtype=torch.int64, device="meta"), 2, 2)


def test_gather_takes_an_empty_index_of_any_kind() -> None:
    x = torch.ones(5, requires_grad=True)
    found = torch.gather(x, 0, torch.zeros(2, 0, dtype=torch.uint8))
    assert found.shape == (2, 0)
    found.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0.0] * 5
    assert torch.logit(torch.tensor([0.5, 0.7]), 0.6).tolist() == pytest.approx(
        [0.4055, -0.4055], 1e-3
    )


def test_tall_triangles_end_where_their_elements_do() -> None:
    assert torch.triu_indices(2**40, 1, -1).tolist() == [[0, 1], [0, 0]]
    assert torch.tril_indices(2**40, 3, 1 - 2**40).tolist() == [[2**40 - 1], [0]]
    assert torch.tril_indices(3, 3, -1).tolist() == [[1, 2, 2], [0, 0, 1]]
    with pytest.raises(RuntimeError, match="same device"):
        torch.nn.functional.nll_loss(
            torch.ones(2, 3), torch.zeros(2, dtype=torch.int64, device="meta")
        )


def test_factors_whose_square_overflows_are_refused() -> None:
    with pytest.raises(RuntimeError, match="too large"):
        torch.pixel_shuffle(torch.ones(2, 4, 0), 2**40)
    with pytest.raises(RuntimeError, match="too large"):
        torch.pixel_unshuffle(torch.ones(2, 0, 0), 2**40)


def test_numbers_among_tensors_as_old_programs_have_them() -> None:
    a, b = torch.ones(2), torch.full((2,), 2.0)
    names = {"torch": torch, "a": a, "b": b, "c": a + b, "m": torch.ones(2, 2)}
    calls = {
        "a.clone().add_(3, b)": [7.0, 7.0],
        "torch.sub(a, 3, b)": [-5.0, -5.0],
        "a.clone().addcmul_(3, b, c)": [19.0, 19.0],
        "a.addcdiv(3, b, c)": [3.0, 3.0],
        "torch.addmm(1, m, 2, m, m)[0]": [5.0, 5.0],
        "m.clone().addmm_(2, m, m)[0]": [4.0, 4.0],
    }
    for call, expected in calls.items():
        with pytest.warns(UserWarning, match="keyword"):
            assert eval(call, names).tolist() == expected
    for call in ("torch.addmm(m, 2, m, m)", "a.clone().add_(b, 3)", "torch.add(a, b, c)"):
        with pytest.raises(TypeError):
            eval(call, names)
