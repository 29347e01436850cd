"""Compressed sparse tensors keep int32 indices, batches of sampled products, sums of blocks."""

import pytest

import flambeau as torch

DENSE = torch.tensor([[1.0, 0, 2, 0], [0, 3, 0, 0], [0, 0, 0, 4], [5, 6, 0, 0]])
LAYOUTS = [torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc]


def _parts(x):
    if x.layout in (torch.sparse_csr, torch.sparse_bsr):
        return x.crow_indices(), x.col_indices()
    return x.ccol_indices(), x.row_indices()


def _narrow(layout):
    blocks = {"blocksize": (2, 2)} if layout in LAYOUTS[2:] else {}
    wide = DENSE.to_sparse(layout=layout, **blocks)
    parts = [part.to(torch.int32) for part in _parts(wide)]
    return torch.sparse_compressed_tensor(*parts, wide.values(), (4, 4), layout=layout)


def _index_dtypes(x):
    return {part.dtype for part in _parts(x)}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_indices_of_int32_stay_so(layout):
    x = _narrow(layout)
    results = [x + x, torch.zeros_like(x), torch.empty_like(x), x.clone(), x.transpose(0, 1)]
    if layout in LAYOUTS[:2]:
        results += [x.to_sparse(layout=to) for to in LAYOUTS[:2]]
        results += [x.sum(d, keepdim=True) for d in (0, 1, (0, 1))]
        results += [x.sparse_mask(x)]
    results += [x.to_sparse_bsr((2, 2)), x.to_sparse_bsc((2, 2))]
    assert {frozenset(_index_dtypes(y)) for y in results} == {frozenset({torch.int32})}
    assert torch.equal((x + x).to_dense(), 2 * DENSE)


def test_a_history_goes_through_a_change_of_layout_with_int32():
    x = _narrow(torch.sparse_csr).requires_grad_()
    (x.to_sparse_csc() * 3).to_dense().sum().backward()
    assert x.grad.to_dense().unique().tolist() in ([0.0, 3.0], [3.0])


@pytest.mark.parametrize("layout", LAYOUTS[2:])
def test_matrices_of_blocks_can_be_added(layout):
    x = DENSE.to_sparse(layout=layout, blocksize=(2, 2))
    y = torch.eye(4).to_sparse(layout=layout, blocksize=(2, 2))
    both = torch.add(x, y, alpha=2)
    assert both.layout is layout and both.values().shape[1:] == (2, 2)
    assert torch.equal(both.to_dense(), DENSE + 2 * torch.eye(4))
    with pytest.raises(RuntimeError, match="blocks"):
        x + torch.eye(4).to_sparse(layout=layout, blocksize=(4, 4))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_zeros_like_stores_nothing_and_empty_like_as_much(layout):
    x = _narrow(layout)
    assert torch.zeros_like(x)._nnz() == 0
    assert not torch.zeros_like(x).to_dense().any()
    assert torch.empty_like(x, dtype=torch.float64).values().shape == x.values().shape
    assert torch.empty_like(x, dtype=torch.float64).dtype == torch.float64


@pytest.mark.parametrize("batch", [(2,), (2, 3)])
def test_one_pattern_serves_a_batch_of_sampled_products(batch):
    pattern = DENSE.to_sparse_csr()
    a, b = torch.randn(*batch, 4, 5), torch.randn(*batch, 5, 4)
    found = torch.sparse.sampled_addmm(pattern, a, b, alpha=2.0, beta=3.0)
    assert found.shape == (*batch, 4, 4) and found.crow_indices().shape == (*batch, 5)
    expected = torch.where(DENSE != 0, 2 * (a @ b) + 3 * DENSE, torch.zeros(()))
    assert torch.allclose(found.to_dense(), expected, atol=1e-5)
