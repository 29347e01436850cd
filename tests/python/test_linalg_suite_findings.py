"""What PyTorch's tests of lists of tensors, trees and linear algebra brought to light."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import flambeau
from flambeau import foreach
from flambeau.testing import assert_close, make_tensor
from flambeau.utils import _pytree as pytree
from flambeau.utils._python_dispatch import TorchDispatchMode


def test_foreach_without_the_underscore():
    ones = [flambeau.ones(2), flambeau.ones(3, 1)]
    sums = foreach.add(ones, [1, 2], alpha=2)
    assert isinstance(sums, tuple)
    assert [x.tolist() for x in sums] == [[3, 3], [[5], [5], [5]]]
    assert foreach.mul_(ones, 3) is ones and ones[0].tolist() == [3, 3]
    assert [x.item() for x in foreach.norm(ones, ord=1)] == [6, 9]
    products = foreach.addcmul(ones, ones, ones, value=[1, -1])
    assert [x.flatten()[0].item() for x in products] == [12, -6]
    (copy,) = foreach.clone([flambeau.rand(1, 2, 3, 4)], memory_format=flambeau.channels_last)
    assert copy.is_contiguous(memory_format=flambeau.channels_last)
    assert str(inspect.signature(foreach.sub)) == "(inputs, other, /, *, alpha=1)"
    assert "powsum" not in foreach.__all__


def test_foreach_takes_lists_by_position_only():
    with pytest.raises(TypeError, match=r"abs\(\)"):
        foreach.abs(inputs=[flambeau.ones(1)])
    with pytest.raises(TypeError, match="beta"):
        foreach.add([flambeau.ones(1)], 1, beta=2)
    with pytest.raises(RuntimeError, match="at least one"):
        foreach.add([], 1)


def test_a_name_with_dots_is_no_attribute():
    assert not hasattr(flambeau, "nn.functional")
    assert not hasattr(flambeau, "a.b")


def test_structures_of_trees_by_hand():
    spec = pytree.treespec_dict(a=pytree.treespec_leaf(), b=pytree.treespec_tuple([]))
    assert spec == pytree.tree_structure({"a": 1, "b": ()})
    with pytest.raises(ValueError, match="TreeSpec"):
        pytree.treespec_tuple([1])  # type: ignore[list-item]


def test_a_class_that_looks_like_a_named_result_is_none():
    class Looks(tuple):
        n_fields = n_sequence_fields = 2
        n_unnamed_fields = 0

    assert not pytree.is_structseq(Looks((0, 1)))
    assert pytree.is_structseq(flambeau.max(flambeau.ones(2, 2), 0))


def test_the_older_registration_of_containers_may_be_repeated():
    class Box:
        pass

    for times in range(2):
        with pytest.warns(UserWarning if times else FutureWarning):
            pytree._register_pytree_node(Box, lambda box: ([], None), lambda items, _: Box())
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(Box, lambda box: ([], None), lambda items, _: Box())


def test_bounds_of_made_tensors_may_be_integers_that_no_float_holds():
    with pytest.raises(ValueError, match="only supports"):
        make_tensor(3, dtype=flambeau.float64, device="cpu", low=10**400, high=10**401)
    made = make_tensor(3, dtype=flambeau.float64, device="cpu", low=0, high=10**401)
    assert made.isfinite().all()


@pytest.mark.parametrize("dtype", [flambeau.float8_e4m3fn, flambeau.float8_e5m2])
def test_numbers_of_eight_bits_that_differ(dtype: flambeau.dtype):
    some = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]]).to(dtype)
    other = flambeau.tensor([[1.0, 2.0], [0.0, 4.0]]).to(dtype)
    assert_close(some, some.clone())
    with pytest.raises(AssertionError, match=r"first mismatched element is at index \(1, 0\)"):
        assert_close(some, other)


def test_sparse_tensors_of_different_sparse_dimensions_differ_in_those():
    dense = flambeau.rand(2, 3, 4) + 1
    with pytest.raises(AssertionError, match="number of sparse dimensions"):
        assert_close(dense.to_sparse(), dense.to_sparse(2))


def test_modes_do_not_see_who_wants_a_gradient():
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            assert "requires_grad" not in kwargs
            return func(*args, **kwargs)

    with Mode():
        made = flambeau.zeros(2, requires_grad=True)
        other = flambeau.ones_like(made, requires_grad=False)
    assert made.requires_grad and made.is_leaf and not other.requires_grad


def test_negation_as_a_view():
    x = flambeau.tensor([1.0, -2.0], requires_grad=True)
    seen = flambeau._neg_view(x)
    assert seen.is_neg() and seen.tolist() == [-1, 2] and seen.data_ptr() == x.data_ptr()
    assert not flambeau._neg_view(seen).is_neg()
    seen.sum().backward()
    assert x.grad.tolist() == [-1, -1]


def test_sizes_of_complex_numbers_are_rounded_as_well_as_hypot_rounds():
    generator = np.random.default_rng(0)
    parts = generator.standard_normal((2, 2000)).astype(np.float32)
    parts[0] *= np.exp2(generator.integers(-20, 20, 2000)).astype(np.float32)
    exact = np.sqrt(np.square(parts, dtype=np.longdouble).sum(0))
    numbers = flambeau.complex(*map(flambeau.from_numpy, parts))
    assert (numbers.abs().numpy() == exact.astype(np.float32)).all()
    double = numbers.to(flambeau.complex128).abs().numpy()
    assert (np.abs(double - exact) <= 0.56 * np.spacing(double)).all()
    half = 0.5**0.5
    for dtype in (flambeau.complex64, flambeau.complex128):
        pair = flambeau.tensor([complex(-2 * half, 2 * half), complex(-half, half)], dtype=dtype)
        assert pair.abs().tolist() == [2, 1]


@pytest.mark.parametrize("dtype", [flambeau.complex64, flambeau.complex128])
def test_sizes_of_the_largest_and_the_smallest_complex_numbers(dtype: flambeau.dtype):
    limits = flambeau.finfo(dtype)
    tiny = limits.smallest_normal * limits.eps
    infinity, nan = float("inf"), float("nan")
    numbers = flambeau.tensor(
        [
            complex(0, limits.max),
            complex(limits.max, limits.max),
            complex(3 * tiny, 4 * tiny),
            complex(nan, -infinity),
            complex(-0.0, 0.0),
        ],
        dtype=dtype,
    )
    assert numbers.abs().tolist() == [limits.max, infinity, 5 * tiny, infinity, 0]
    assert flambeau.tensor(complex(nan, 1), dtype=dtype).abs().isnan()


def test_parts_of_sparse_tensors_keep_their_sizes():
    indices, values = flambeau.tensor([[0, 1, 2]]), flambeau.tensor([1.0, 2.0, 3.0])
    x = flambeau.sparse_coo_tensor(indices, values, (3,))
    starts, positions = flambeau.tensor([0, 1, 3]), flambeau.tensor([0, 0, 1])
    y = flambeau.sparse_csr_tensor(starts, positions, values, (2, 2))
    values.mul_(2)
    for part in (indices, values, starts, positions):
        part.resize_(0)
    assert x.to_dense().tolist() == [2, 4, 6]
    assert y.to_dense().tolist() == [[2, 0], [4, 6]]


def test_sspaddmm_says_which_matrix_must_be_sparse():
    sparse, dense = flambeau.eye(2).to_sparse(), flambeau.ones(2, 2)
    assert flambeau.sspaddmm(sparse, sparse, dense).to_dense().tolist() == [[2, 1], [1, 2]]
    assert sparse.sspaddmm(sparse, dense).to_dense().tolist() == [[2, 1], [1, 2]]
    for matrices, name in (
        ((sparse, dense, dense), "mat1"),
        ((sparse, sparse, sparse), "mat2"),
        ((dense, sparse, dense), "self"),
    ):
        with pytest.raises(RuntimeError, match=f"sspaddmm: expected '{name}'"):
            flambeau.sspaddmm(*matrices)
    with pytest.raises(RuntimeError, match="addmm"):
        flambeau.addmm(sparse, dense, dense)


def test_masked_products_along_no_dimension_are_along_all():
    x, mask = flambeau.tensor([[2.0, 3.0], [4.0, 5.0]]), flambeau.tensor([[True, False]])
    assert flambeau.masked.prod(x, dim=()).item() == 120
    assert flambeau.masked.prod(x, dim=(), mask=mask, keepdim=True).tolist() == [[8]]


def test_sparse_tensors_like_others_have_the_layout_that_was_asked_for():
    dense = flambeau.tensor([[1.0, 0.0], [2.0, 3.0]])
    rows, blocks = dense.to_sparse_csr(), dense.to_sparse_bsr((1, 1))
    assert flambeau.zeros_like(rows, layout=flambeau.sparse_csc).layout == flambeau.sparse_csc
    assert flambeau.empty_like(blocks, layout=flambeau.sparse_bsr).layout == flambeau.sparse_bsr
    for wanted in (flambeau.sparse_csc, flambeau.sparse_bsr):
        with pytest.raises(RuntimeError, match="different sparse layout"):
            flambeau.empty_like(rows, layout=wanted)
    with pytest.raises(RuntimeError, match="blocks"):
        flambeau.zeros_like(rows, layout=flambeau.sparse_bsr)


def test_rows_of_compressed_tensors_are_coalesced():
    dense = flambeau.tensor([[1.0, 0.0, 4.0], [2.0, 3.0, 0.0]])
    for matrix in (dense.to_sparse_csr(), dense.to_sparse_csc()):
        assert matrix.select(0, 0).values().tolist() == [1, 4]
        assert flambeau.select_copy(matrix, 1, 0).indices().tolist() == [[0, 1]]


def test_indices_among_the_results_of_a_function_do_not_move_with_its_inputs():
    x, directions = flambeau.tensor([1.0, 3.0, 2.0]), flambeau.eye(3)

    def both(a: flambeau.Tensor) -> tuple[flambeau.Tensor, ...]:
        return tuple(flambeau.cummax(a, 0))

    _, (moved, still) = flambeau.func.jvp(both, (x,), (directions[1],))
    assert moved.tolist() == [0, 1, 1] and still.tolist() == [0, 0, 0]
    assert still.dtype == flambeau.int64
    together = flambeau.func.vmap(lambda v: flambeau.func.jvp(both, (x,), (v,))[1])(directions)
    assert together[0].tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    assert not together[1].any()
    _, only = flambeau.func.jvp(lambda a: a.argmax(), (x,), (x,))
    assert only.item() == 0
    assert [part.dtype for part in flambeau.func.jacfwd(both)(x)] == [x.dtype, flambeau.int64]
