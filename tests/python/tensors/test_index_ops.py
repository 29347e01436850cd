"""Indexing ops beyond their samples: repeated indices, threads, shared memory, bad indices."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

F64 = torch.float64


@pytest.mark.parametrize("columns", [33, 300])
def test_repeated_indices_add_up_in_order_whatever_the_threads(columns: int) -> None:
    torch.manual_seed(0)
    source = torch.randn(4000, columns)
    index = torch.randint(0, 7, (4000,))
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            total = torch.zeros(7, columns).index_add(0, index, source)
            put = torch.zeros(7, columns).index_put((index,), source, accumulate=True)
            rows = index[:, None].expand(4000, columns)
            scattered = torch.zeros(7, columns).scatter_add(0, rows, source)
            results.append((total, put, scattered))
    finally:
        torch.set_num_threads(before)
    for other in results:
        for one in other:
            assert torch.equal(one, results[0][0])


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce_has_derivatives(reduce, include_self) -> None:
    x = torch.tensor([1.5, -0.5, 2.0, 0.7], dtype=F64, requires_grad=True)
    src = torch.tensor([0.3, -1.2, 2.2, 0.9, 1.1], dtype=F64, requires_grad=True)
    index = torch.tensor([0, 0, 1, 3, 0])

    def run(a, b):
        return a.scatter_reduce(0, index, b, reduce, include_self=include_self)

    assert gradcheck(run, (x, src))
    assert gradgradcheck(run, (x, src))


def test_the_product_beside_a_zero_has_derivatives() -> None:
    x = torch.tensor([1.5, 2.0], dtype=F64, requires_grad=True)
    src = torch.tensor([0.0, -1.2, 2.2], dtype=F64, requires_grad=True)
    index = torch.tensor([0, 0, 1])
    assert gradcheck(lambda a, b: a.scatter_reduce(0, index, b, "prod"), (x, src))
    assert gradgradcheck(lambda a, b: a.scatter_reduce(0, index, b, "prod"), (x, src))


def test_the_unused_part_of_src_has_a_zero_gradient() -> None:
    src = torch.ones(3, 4, dtype=F64, requires_grad=True)
    index = torch.tensor([[0, 1], [3, 2]])
    for out in (
        torch.zeros(3, 4, dtype=F64).scatter(1, index, src),
        torch.zeros(3, 4, dtype=F64).scatter_add(1, index, src),
    ):
        (gradient,) = torch.autograd.grad(out.sum(), src)
        assert gradient.tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]


def test_index_fill_counts_a_repeated_place_once() -> None:
    value = torch.tensor(2.0, dtype=F64, requires_grad=True)
    out = torch.zeros(4, dtype=F64).index_fill(0, torch.tensor([1, 1, -1]), value)
    assert out.tolist() == [0, 2, 0, 2]
    (gradient,) = torch.autograd.grad(out.sum(), value)
    assert gradient.item() == 2


def test_values_in_the_memory_of_the_target_are_refused_or_kept_apart() -> None:
    x = torch.arange(6.0).view(3, 2)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x[torch.tensor([1, 2])] = x[:2]
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x[torch.tensor([0, -1, 1])] = x
    x[torch.tensor([1, 2]), :1] = x[:2, :1]  # strided: copied first
    assert x.tolist() == [[0, 1], [0, 3], [2, 5]]


def test_a_mask_converts_a_single_value_and_nothing_else() -> None:
    x = torch.zeros(2, 2)
    x[torch.tensor([True, False])] = torch.tensor(2.5, dtype=F64)
    assert x.tolist() == [[2.5, 2.5], [0, 0]]
    x[True] = torch.ones(2, dtype=F64)
    assert x.tolist() == [[1, 1], [1, 1]]
    with pytest.raises(RuntimeError, match="source and destination dtypes match"):
        x[torch.tensor([True, False])] = torch.ones(2, dtype=F64)


BAD = {
    "index": (IndexError, lambda x, i: x[i]),
    "index_put": (IndexError, lambda x, i: x.index_put((i,), torch.tensor(1.0))),
    "index_select": (IndexError, lambda x, i: x.index_select(0, i)),
    "index_add": (RuntimeError, lambda x, i: x.index_add(0, i, torch.ones(1, 4))),
    "index_copy": (IndexError, lambda x, i: x.index_copy(0, i, torch.ones(1, 4))),
    "index_fill": (IndexError, lambda x, i: x.index_fill(0, i, 1.0)),
    "gather": (RuntimeError, lambda x, i: x.gather(0, i[:, None])),
    "scatter": (RuntimeError, lambda x, i: x.scatter(0, i[:, None], 1.0)),
    "scatter_add": (RuntimeError, lambda x, i: x.scatter_add(0, i[:, None], torch.ones(1, 1))),
    "take": (IndexError, lambda x, i: x.take(i * 100)),
    "put": (IndexError, lambda x, i: x.put(i * 100, torch.ones(1))),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("index", [3, -4, 2**62, -(2**63)])
def test_no_index_is_trusted(name, index) -> None:
    error, call = BAD[name]
    if name in ("take", "put"):
        index = 5 if index > 0 else -5
    with pytest.raises(error, match=r"out of (bounds|range)"):
        call(torch.zeros(3, 4), torch.tensor([index]))


def test_data_dependent_shapes_are_refused_on_meta() -> None:
    mask = torch.zeros(3, dtype=torch.bool, device="meta")
    with pytest.raises(NotImplementedError, match="nonzero"):
        mask.nonzero()
    x = torch.zeros(3, device="meta")
    assert x.masked_scatter(mask, torch.zeros(3, device="meta")).shape == (3,)
    assert torch.tril_indices(3, 4, device="meta").shape == torch.tril_indices(3, 4).shape


def test_index_select_of_a_dimension_without_elements() -> None:
    with pytest.raises(RuntimeError, match="axis dim should be positive"):
        torch.index_select(torch.empty(0, 3), 0, torch.tensor([0]))
    none = torch.index_select(torch.empty(0, 3), 0, torch.tensor([], dtype=torch.int64))
    assert none.shape == (0, 3)


def test_copying_slices_into_expanded_memory_is_refused_before_anything_else() -> None:
    with pytest.raises(RuntimeError, match="more than one element"):
        torch.zeros(2, 3).expand(2, 2, 3).index_copy_(0, torch.tensor([0, 1]), torch.zeros(2, 3))


def test_a_number_that_is_scattered_first_needs_no_memory() -> None:
    first = torch.zeros(0, dtype=torch.int64)
    assert torch.ones(2, dtype=torch.int64).scatter_(0, first, -float("inf")).tolist() == [1, 1]


def test_the_gradient_of_take_lies_as_its_input_does() -> None:
    x = torch.randn(2, 3, 4, requires_grad=True)
    x.movedim(0, -1).take(torch.tensor([2, 2, 0])).sum().backward()
    assert x.grad is not None and x.grad.stride() == x.stride()
    assert x.grad.sum() == 3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("targets", "rows", "columns"), [(7, 500, 33), (9000, 20, 1500)])
def test_rows_of_a_narrow_dtype_that_coincide_are_added_in_float(
    dtype, targets, rows, columns
) -> None:
    torch.manual_seed(0)
    table, source = torch.randn(targets, columns).to(dtype), torch.randn(rows, columns).to(dtype)
    index = torch.randint(0, targets, (rows,))
    expected = table.float().index_add(0, index, source.float()).to(dtype)
    assert torch.equal(table.index_add(0, index, source), expected)
    assert torch.equal(table.scatter_add(0, index[:, None].expand_as(source), source), expected)


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "amax", "amin"])
def test_an_expanded_index_writes_slices_as_a_whole_one_does(reduce) -> None:
    torch.manual_seed(0)
    table, source = torch.randn(6, 30, 4), torch.randn(9, 30, 4)
    index = torch.randint(0, 6, (9, 1, 1)).expand(9, 20, 3)
    expected = table.scatter_reduce(0, index.contiguous(), source, reduce)
    assert torch.equal(table.scatter_reduce(0, index, source, reduce), expected)
    for wrong in (-1, 6):
        with pytest.raises(RuntimeError, match=f"index {wrong} is out of bounds"):
            table.scatter_reduce(0, torch.tensor(wrong).expand(9, 20, 3), source, reduce)


@pytest.mark.parametrize("size", [1, 2, 31, 33, 1000, 4096, 4097])
@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64])
def test_rows_gathered_in_simd(dtype: torch.dtype, size: int) -> None:
    count = (1 << 23) // (4 * 1100) if size == 1000 else 3  # the most are stored non-temporally
    x = torch.randint(-30000, 30000, (count, size)).to(dtype)
    positions = torch.randint(0, size, (count, 4 * 1100 + 7))
    positions[:, -2:] = size - 1
    expected = x.flatten()[positions + torch.arange(count)[:, None] * size]
    assert torch.equal(x.gather(1, positions), expected)
    assert torch.equal(x.gather(1, positions[:, 5:]), expected[:, 5:])
    for wrong, place in ((size, 0), (size, 40), (-1, 77), (1 << 32, -1)):
        broken = positions.clone()
        broken[-1, place] = wrong
        with pytest.raises(RuntimeError, match="out of bounds"):
            x.gather(1, broken)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_of_many_elements_of_a_narrow_dtype_are_rounded_once(dtype) -> None:
    count = 9000
    first = torch.zeros(count, dtype=torch.int64)
    positions = first[:, None].expand(count, 4)
    ones, zeros = torch.ones(count, 4, dtype=dtype), torch.zeros(2, 4, dtype=dtype)
    expected = torch.tensor(float(count)).to(dtype)
    results = [
        zeros.index_add(0, first, ones),
        zeros.t().contiguous().index_add_(1, first, ones.t()).t(),
        zeros.scatter_add(0, positions, ones),
        zeros.clone().scatter_add_(0, positions, ones),
        zeros.scatter_reduce(0, positions, ones, "sum"),
    ]
    for pick in (
        lambda x: x.gather(0, positions),
        lambda x: x.index_select(0, first),
    ):
        leaf = zeros.clone().requires_grad_()
        pick(leaf).sum().backward()
        assert leaf.grad is not None
        results.append(leaf.grad)
    for result in results:
        assert result.dtype == dtype and bool((result[0] == expected).all())
        assert not bool(result[1].any())


def test_few_elements_are_added_to_a_large_tensor_of_a_narrow_dtype_where_they_lie() -> None:
    large = torch.zeros(3, 5000, dtype=torch.bfloat16)
    where = torch.tensor([[1, 7, 1]]).expand(3, 3)
    large.scatter_add_(1, where, torch.full((3, 3), 0.5, dtype=torch.bfloat16))
    assert large.sum().item() == 4.5 and large[0, 1].item() == 1.0
    assert large._version == 1
    many = where.repeat(1, 10)
    large.scatter_add_(1, many, torch.full((3, 30), 0.5, dtype=torch.bfloat16))
    assert large[2, 1].item() == 11.0 and large._version == 2


@pytest.mark.parametrize(
    "write",
    [
        lambda i: i.index_fill_(0, i, 0),
        lambda i: i.index_put_((i,), torch.tensor([1, 2, 3])),
        lambda i: i.index_add_(0, i, torch.tensor([1, 2, 3])),
        lambda i: i.index_copy_(0, i, torch.tensor([1, 2, 3])),
    ],
)
def test_indices_are_not_written_while_they_are_followed(write) -> None:
    index = torch.tensor([0, 1, 2])
    with pytest.raises(RuntimeError, match="unsupported operation: some elements of the input"):
        write(index)
    assert index.tolist() == [0, 1, 2]


def test_what_is_put_before_a_difference_has_its_shape() -> None:
    with pytest.raises(RuntimeError, match=r"input.size\(1\) = 3, but got tensor.size\(1\) = 4"):
        torch.diff(torch.ones(2, 3), dim=0, append=torch.ones(1, 4))


def test_the_last_of_several_written_to_one_place_stays_where_runs_must_agree() -> None:
    index, values = torch.randint(0, 50, (20_000,)), torch.arange(20_000.0)
    last = [0.0] * 50
    for at, value in zip(index.tolist(), values.tolist(), strict=True):
        last[at] = value
    zeros = torch.zeros(50)
    torch.use_deterministic_algorithms(True)
    try:
        for written in (
            zeros.index_put((index,), values),
            zeros.index_copy(0, index, values),
            zeros.scatter(0, index, values),
        ):
            assert written.tolist() == last
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_nothing_is_added_where_no_place_is_named(dtype: torch.dtype) -> None:
    none, row = torch.zeros(5, dtype=torch.bool), torch.ones(3, dtype=dtype)
    nowhere = torch.empty(0, dtype=torch.int64)
    for index in (none, nowhere):
        x = torch.ones(5, 3, dtype=dtype)
        assert torch.index_put(x, (index,), row, accumulate=True).tolist() == x.tolist()
    empty = torch.ones(0, 3, dtype=dtype)
    assert empty.index_put_((nowhere,), row, accumulate=True).shape == (0, 3)
    narrow = torch.ones(5, 0, dtype=dtype)
    assert narrow.index_add_(0, torch.tensor([1, 1]), torch.ones(2, 0, dtype=dtype)).shape == (5, 0)


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_an_embedding_of_no_words_has_a_gradient_of_zeros(index_dtype: torch.dtype) -> None:
    weight = torch.ones(5, 3, requires_grad=True)
    torch.nn.functional.embedding(torch.empty(0, dtype=index_dtype), weight).sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == [[0.0] * 3] * 5


def test_complex_factors_of_what_is_added_have_conjugate_gradients() -> None:
    x = torch.randn(3, dtype=torch.complex128, requires_grad=True)
    y = torch.randn(2, dtype=torch.complex128, requires_grad=True)
    index, factor = torch.tensor([0, 2]), 2 + 3j
    torch.autograd.gradcheck(lambda a, b: a.index_add(0, index, b, alpha=factor), (x, y))
    torch.index_add(x, 0, index, y, alpha=factor).sum().abs().backward()
    dense = torch.zeros(3, dtype=torch.complex128)
    for combine in (torch.add, torch.sub):
        torch.autograd.gradcheck(
            lambda a, b, combine=combine: combine(
                a, torch.sparse_coo_tensor(index[None], b, (3,)), alpha=factor
            ),
            (x, y),
        )
        both = torch.sparse_coo_tensor(index[None], y, (3,))
        total = combine(both, both * 2, alpha=factor).to_dense()
        (found,) = torch.autograd.grad(total, y, torch.ones_like(dense))
        sign = 1 if combine is torch.add else -1
        torch.testing.assert_close(found, torch.full_like(y, 1 + sign * 2 * (2 - 3j)))


def test_expanded_tensors_are_filled_with_single_numbers_only() -> None:
    x, mask = torch.ones(1).expand(2), torch.ones(2, dtype=torch.bool)
    with pytest.raises(RuntimeError, match="0-dimensional value"):
        x.masked_fill_(mask, torch.ones(1))


def test_bounds_of_slices_are_whatever_is_an_index() -> None:
    x = torch.arange(12).view(3, 4)
    for one in (torch.tensor(1), torch.tensor([1]), torch.tensor([[True]]), torch.tensor(1).byte()):
        assert x[:, one:].tolist() == x[:, 1:].tolist()
        assert x[:one, : one + 1 : one].tolist() == [[0, 1]]
    y = x.clone()
    y[:, torch.tensor([3]) :] = 0
    assert y[:, 3].tolist() == [0, 0, 0]
    for bad in (torch.tensor([1, 2]), torch.tensor(1.0), torch.empty(0, dtype=torch.int64)):
        with pytest.raises(TypeError, match="only integer tensors of a single element"):
            x[bad:]
    assert x[: 1 << 70].shape == (3, 4)
    with pytest.raises(TypeError, match="slice indices must be integers"):
        x["a":]


def test_masked_scatter_of_itself_reads_what_it_has_written() -> None:
    x = torch.tensor([1.5, -2.0, 0.25, 3.0])
    x.masked_scatter_(x > 0, x)
    assert x.tolist() == [1.5, -2.0, -2.0, -2.0]


def test_copies_with_a_replaced_view_lie_as_their_input_does() -> None:
    x = torch.zeros(4, 6)[:, ::2]
    assert x.select_scatter(torch.ones(3), 0, 1).stride() == x.stride()
    assert x.diagonal_scatter(torch.ones(3)).stride() == x.stride()


def test_as_strided_scatter_passes_back_what_lies_in_the_window() -> None:
    x = torch.zeros(4, requires_grad=True)
    x.as_strided_scatter(torch.ones(2), (2,), (1,)).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1, 1, 0, 0]
