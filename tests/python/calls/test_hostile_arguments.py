"""Arguments that mean harm: objects that change what is being read, that claim what they are not,
or whose names cannot be spelt. They may raise, but not crash, and their own errors come through.
"""

from __future__ import annotations

import re
import resource
from types import SimpleNamespace

import pytest

import flambeau as torch
from flambeau.nn import functional as F

HALF = "\ud800"  # half of a surrogate pair: no UTF-8


class Shrinker:
    """A number that empties a list when it is read."""

    def __init__(self, victim: list) -> None:
        self.victim = victim

    def __index__(self) -> int:
        self.victim.clear()
        return 1


def array_of(**description: object) -> SimpleNamespace:
    return SimpleNamespace(__array_interface__={"shape": (1,), "version": 3, **description})


def shrinking_list() -> list:
    victim: list = []
    victim.extend([Shrinker(victim), *([1] * 50)])
    return victim


def test_a_list_of_sizes_may_shrink_while_it_is_read():
    assert torch.zeros(shrinking_list()).shape == (1,)


def test_a_list_of_indices_may_shrink_while_it_is_read():
    victim: list = []
    victim.extend([Shrinker(victim), None, 0, ...])
    assert torch.zeros(3, 3, 3)[victim].shape == (1, 3)


def test_data_may_shrink_while_it_is_read():
    class Lister:
        def __init__(self, victim: list) -> None:
            self.victim = victim

        def __len__(self) -> int:
            self.victim.clear()
            return 1

        def __getitem__(self, i: int) -> float:
            if i > 0:
                raise IndexError
            return 1.0

    victim: list = []
    victim.extend([[1.0], Lister(victim), [2.0], [3.0]])
    with pytest.raises(ValueError, match="expected sequence of length 4"):
        torch.tensor(victim)


def test_a_list_that_holds_itself_is_searched_in_vain():
    class Other(torch.Tensor):
        pass

    loop: list = []
    loop.append(loop)
    special = torch.ones(2).as_subclass(Other)
    with pytest.raises(RecursionError):
        torch.cat([special, loop])
    with pytest.raises(RecursionError):
        torch.add(special, loop)
    with pytest.raises(ValueError, match="too many dimensions"):
        torch.tensor(loop)


def test_names_that_are_no_text_are_escaped():
    with pytest.raises(TypeError, match=re.escape(r"\ud800")):
        torch.relu(torch.ones(1), **{HALF: 1})
    with pytest.raises(TypeError, match=re.escape(r"\ud800")):
        torch.sum(torch.ones(1), "dim", **{HALF: 1})

    with pytest.raises(TypeError, match=re.escape(r"\ud800")):
        torch.as_tensor(array_of(typestr=HALF, data=(0, False)))

    def hook(gradient: torch.Tensor) -> torch.Tensor:
        return gradient.expand(7)

    hook.__name__ = HALF
    x = torch.ones(1, requires_grad=True)
    y = x * 2
    y.register_hook(hook)
    with pytest.raises(RuntimeError, match=re.escape(r"\ud800")):
        y.sum().backward()


def test_an_array_without_an_address_is_refused():
    with pytest.raises(TypeError, match="no data pointer"):
        torch.as_tensor(array_of(typestr="<f4", data=()))


def test_errors_of_objects_come_through():
    class NoLength:
        def __len__(self) -> int:
            raise KeyError("mine")

        def __getitem__(self, i: int) -> int:
            return i

    with pytest.raises(KeyError, match="mine"):
        torch.tensor(NoLength())

    def fails(self: object) -> float:
        raise ZeroDivisionError

    number = type("numpy.float64", (), {"__float__": fails})()
    with pytest.raises(ZeroDivisionError):
        torch.add(torch.ones(1), number)
    with pytest.raises(TypeError, match="max_version"):
        torch.ones(2).__dlpack__(max_version=("new",))

    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            type(ctx).dirty_tensors = property(fails)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(ZeroDivisionError):
        Broken.apply(torch.ones(1, requires_grad=True))


def test_promised_lengths_claim_no_memory():
    class Endless:
        def __len__(self) -> int:
            return 2**40

        def __getitem__(self, i: int) -> float:
            if i:
                raise EOFError
            return 1.0

    with pytest.raises((EOFError, MemoryError)):
        torch.tensor(Endless())


def test_device_indices_do_not_wrap():
    for make in (
        lambda: torch.device(300),
        lambda: torch.device("cuda", 300),
        lambda: torch.device("cuda:300"),
    ):
        with pytest.raises(RuntimeError, match="index"):
            make()


def test_sizes_know_their_keyword():
    x = torch.ones(3, 4)
    assert (x.size(dim=1), x.stride(dim=0)) == (4, 4)
    with pytest.raises(TypeError, match="unexpected keyword argument 'place'"):
        x.size(place=1)


@pytest.mark.parametrize("number", [-1, 1, 50, 2**40])
def test_gradient_edges_name_outputs_that_exist(number):
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    edge = torch.autograd.graph.GradientEdge(y.grad_fn, number)
    with pytest.raises(IndexError):
        torch.autograd.grad(edge, x, torch.ones(3))
    with pytest.raises(IndexError, match="names output"):
        torch.autograd.grad(y.sum(), edge)


def test_overrides_may_change_the_lists_they_are_found_in():
    class Picky(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            args[0].clear()
            return NotImplemented

    class Other(Picky):
        pass

    with pytest.raises(TypeError, match="no implementation found"):
        torch.cat([torch.ones(1).as_subclass(Picky), torch.ones(1).as_subclass(Other)])


def test_hooks_may_be_added_and_taken_off_by_hooks():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    handles: list = []
    calls: list = []

    def hook(*gradients):
        calls.append(len(gradients))
        for _ in range(100):
            handles.append(y.grad_fn.register_hook(lambda *g: None))
            handles.append(y.grad_fn.register_prehook(lambda *g: None))
        for handle in handles:
            handle.remove()

    handles += [y.grad_fn.register_hook(hook), y.grad_fn.register_prehook(hook)]
    y.sum().backward()
    assert calls and x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.combinations(torch.zeros(100), 50),
        lambda: torch.combinations(torch.zeros(60), 30),
        lambda: torch.combinations(torch.zeros(3), 2**62),
        lambda: torch.conv2d(torch.zeros(1, 1, 3, 3), torch.zeros(1, 1, 2, 2), padding=2**62),
        lambda: torch.conv2d(torch.zeros(1, 1, 3, 3), torch.zeros(1, 1, 2, 2), dilation=2**62),
        lambda: torch.nn.functional.interpolate(torch.zeros(1, 1, 3), size=2**62),
        lambda: torch.histogram(torch.zeros(3), 2**63 - 1),
        lambda: torch.rnn_tanh(
            torch.zeros(1, 1, 1), torch.zeros(1, 1, 1), [], True, 2**62, 0.0, False, True, False
        ),
    ],
)
def test_extreme_numbers_raise_at_once(call):
    with pytest.raises((RuntimeError, MemoryError)):
        call()


def test_combinations_that_do_not_exist_are_none():
    assert torch.combinations(torch.zeros(3), 4).shape == (0, 4)
    assert torch.combinations(torch.zeros(3), 4, with_replacement=True).shape == (15, 4)
    assert torch.combinations(torch.zeros(0), 2, with_replacement=True).shape == (0, 2)


def test_huge_steps_leave_one_element():
    x = torch.arange(24.0).view(2, 3, 4)
    assert torch.slice_copy(x, 2, step=2**62).flatten().tolist() == [0, 4, 8, 12, 16, 20]
    assert x.unfold(0, 2, 2**62).shape == (1, 3, 4, 2)
    assert (x[:, :: 2**62] + 1).flatten().tolist() == [1, 2, 3, 4, 13, 14, 15, 16]


def test_rows_without_columns_are_looked_up():
    assert torch.embedding(torch.zeros(5, 0), torch.tensor([4, 0])).shape == (2, 0)
    with pytest.raises(IndexError):
        torch.embedding(torch.zeros(5, 0), torch.tensor([5]))


def test_corrections_do_not_overflow():
    x = torch.tensor([[1.0, 3.0]], dtype=torch.float64)
    assert torch.cov(x, correction=-(2**63)).item() == 2 / (2 + 2.0**63)
    assert torch.cov(x, correction=2**63 - 1).item() == float("inf")


def test_tensors_without_elements_may_have_any_other_size():
    x = torch.zeros(0, 1, 1, requires_grad=True)
    x.expand(0, 2**40, 2**40).sum((1, 2)).sum().backward()
    assert x.grad.shape == (0, 1, 1)


def test_a_sequence_may_not_go_on_for_ever():
    class Endless:
        def __len__(self) -> int:
            return 3

        def __getitem__(self, i: int) -> float:
            return 1.0

    with pytest.raises(ValueError, match="expected sequence of length 3"):
        torch.tensor(Endless())


def test_unpacking_may_free_what_is_being_unpacked():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x * 2)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    results: list = []

    def unpack(tensor):
        if results:
            results.pop().sum().backward()
        return tensor

    x = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        y = Double.apply(x)
    node = y.grad_fn
    results.append(y)
    assert [t.tolist() for t in node.saved_tensors] == [[1, 1, 1], [2, 2, 2]]
    with pytest.raises(RuntimeError, match="second time"):
        _ = node.saved_tensors


def test_an_output_of_cat_that_would_grow_is_no_input():
    out = torch.empty(0)
    with pytest.raises(RuntimeError, match="cannot refer to any of the output memory"):
        torch.cat([torch.ones(1000, 4), out], out=out)
    assert out.shape == (0,)
    empty = torch.empty(0)
    assert torch.cat([empty.view(-1), torch.ones(500)], out=empty).sum() == 500
    assert torch.cat([empty[:0], empty[:0]]).shape == (0,)


def test_a_sparse_number_is_not_assigned():
    x = torch.zeros(3, 4)
    with pytest.raises(NotImplementedError, match="fill_"):
        x[1:] = torch.tensor(2.0).to_sparse()
    assert x.sum() == 0


def test_memory_given_to_dlpack_stays_when_its_tensor_takes_other_memory():
    for change in (
        lambda x: x.set_(torch.zeros(1, dtype=x.dtype)),
        lambda x: setattr(x, "data", torch.zeros(1)),
    ):
        x = torch.full((1000,), 3)
        capsule = torch.to_dlpack(x)
        change(x)
        torch.full((1000,), 9)  # would land in memory that was set free
        assert torch.from_dlpack(capsule).tolist() == [3] * 1000
    x = torch.full((1000,), 3)
    y = torch.from_dlpack(x)
    x.set_(y)
    torch.full((1000,), 9)
    assert y.clone().tolist() == x.clone().tolist() == [3] * 1000


def test_strides_of_one_element_may_be_any_number():
    x = torch.arange(3.0).as_strided((1, 3), (2**62, 1))
    assert x.tolist() == [[0, 1, 2]]
    assert x.numpy().tolist() == [[0, 1, 2]]
    for dim in (0, 1):
        assert x.sort(dim)[0].tolist() == [[0, 1, 2]]
        assert x.topk(1, dim)[0].shape[dim] == 1
    assert x.unique().tolist() == [0, 1, 2]
    assert x[torch.tensor([0, 0])].tolist() == [[0, 1, 2]] * 2
    assert x.gather(0, torch.zeros(1, 3, dtype=torch.int64)).tolist() == [[0, 1, 2]]


def test_sizes_of_a_transform_that_cannot_be_counted_are_refused():
    with pytest.raises(RuntimeError, match="overflowed"):
        torch.fft.fftn(torch.zeros(0, 5, 1), s=(2**62,))


def test_no_elements_may_lie_anywhere():
    x = torch.zeros(3, dtype=torch.complex128)
    assert x.as_strided((2, 0), (1, 1), 2**60).tolist() == [[], []]


def test_a_number_that_cannot_be_counted_to_is_refused():
    for weights in (None, torch.ones(2)):
        with pytest.raises(RuntimeError):
            torch.bincount(torch.tensor([1, 2**63 - 1]), weights)


def test_parts_of_a_single_complex_number_may_have_any_stride():
    x = torch.tensor([1 + 2j]).as_strided((1,), (2**62,))
    assert torch.view_as_real(x).tolist() == [[1, 2]]


def test_no_elements_are_clamped_between_no_bounds():
    x = torch.empty_strided([0], [0], dtype=torch.int64)
    assert torch.clamp(x, x).shape == torch.clamp(x, x, x).shape == (0,)


def test_sizes_that_overflow_are_refused() -> None:
    huge = torch.zeros(1).expand(2**62)
    with pytest.raises(RuntimeError, match="too large"):
        torch.cat([huge, huge])
    far = torch.empty(0).as_strided((0,), (1,), 2**63 - 1)
    with pytest.raises(RuntimeError):
        torch.sum(torch.ones(3), 0, out=far)
    assert far.resize_(0, 3).shape == (0, 3)


def test_convolutions_of_integers_wrap() -> None:
    largest = torch.full((1, 1, 2, 2), 2**63 - 1)
    got = F.conv_transpose2d(largest, torch.ones(1, 1, 2, 2, dtype=torch.int64))
    assert got[0, 0, 1, 1].item() == -4


def test_sizes_next_to_the_largest_number_do_not_overflow():
    assert torch.eye(0, 2**63 - 1).shape == (0, 2**63 - 1)
    with pytest.raises(RuntimeError, match="too large"):
        F.one_hot(torch.tensor([0, 2**63 - 1]))
    with pytest.raises(RuntimeError, match="bins are too many"):
        torch.histc(torch.zeros(3), bins=2**63 - 1)
    with pytest.raises(RuntimeError, match="too large relative to input"):
        F.fractional_max_pool2d(torch.zeros(2, 3, 4, 4), 2**63 - 1, [5, -(2**63)])
    with pytest.raises(RuntimeError, match="too large relative to input"):
        F.fractional_max_pool2d(torch.zeros(2, 3, 4, 4), 2, [2**63 - 1, 2])


def test_what_is_counted_takes_no_more_memory_than_the_counts():
    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

    before = peak()
    counts = torch.bincount(torch.tensor([5 * 10**6]))
    assert counts.shape == (5 * 10**6 + 1,)
    assert peak() - before < 100


@pytest.mark.parametrize("scale", [1e-300, 1e300, 1e-20])
def test_filters_that_are_wider_than_any_number_of_inputs(scale: float) -> None:
    found = torch._C._ops["_upsample"](torch.ones(2, 3, 3, 3), [7, 7], [scale] * 2, "bilinear",
                                       False, True)  # fmt: skip
    assert found.shape == (2, 3, 7, 7)


def test_tensors_of_no_elements_between_huge_dimensions():
    most = 2**63 - 1
    empty = torch.empty(0).as_strided((0, most, most), (1, most, 1))
    assert (empty * 2).shape == empty.shape
    crow = torch.tensor([0, 0])
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.meshgrid(
            torch.ones(5), torch.ones(5), torch.sparse_csr_tensor(
                crow, torch.tensor([], dtype=torch.int64), torch.ones(0), (1, 2**62 + 1)
            )
        )  # fmt: skip


def test_options_of_another_kind_are_refused():
    x = torch.ones(3, 3)
    with pytest.raises(TypeError, match="LinearCrossEntropyOptions"):
        F.linear_cross_entropy(x, x, torch.zeros(3, dtype=torch.int64), options=x)


def test_sizes_with_channels_last_that_no_memory_holds():
    with pytest.raises(RuntimeError):
        torch.empty(0).resize_(7, 5, 2**62, 7, memory_format=torch.channels_last)


def test_shorter_elements_of_a_single_place_may_have_any_stride():
    x = torch.arange(2.0, dtype=torch.float64).as_strided((1, 2), (2**63 - 1, 1))
    assert x.view(torch.int32)[0].view(torch.float64).tolist() == [0, 1]
    none = torch.arange(4.0).as_strided((2, 0, 4), (2**62, 2**61, 1))
    assert none.view(torch.int16).shape == (2, 0, 8)
    with pytest.raises(RuntimeError, match="overflow"):
        torch.empty(0, 2**62, dtype=torch.float64).view(torch.int8)
    with pytest.raises(RuntimeError, match="overflow"):
        torch.empty(0, 2**62, dtype=torch.float64).view(torch.int32)
    assert torch.randn(1, dtype=torch.complex64).as_strided((1,), (2**62,)).normal_().shape == (1,)


def test_steps_of_packed_sequences_that_no_number_counts():
    sizes = torch.tensor([2**62, 2**62])
    with pytest.raises(RuntimeError, match="batch_sizes must add up"):
        torch.rnn_tanh(torch.ones(3, 4), sizes, torch.ones(1, 2, 4), [], True, 1, 0.0, False, False)


def test_sums_of_integers_in_windows_and_in_sparse_products_wrap():
    least, most = -(2**63), 2**63 - 1
    x = torch.tensor([[[[most, most], [3, least]]]])
    whole = (2 * most + 3 + least + 2**63) % 2**64 - 2**63
    for image in (x, x.contiguous(memory_format=torch.channels_last)):
        assert F.avg_pool2d(image, 2, divisor_override=1).item() == whole
        assert F.avg_pool2d(image, 1, divisor_override=-1).flatten().tolist() == [
            -most,
            -most,
            -3,
            least,
        ]
        assert F.avg_pool2d(image, 1, divisor_override=most).flatten().tolist() == [1, 1, 0, -1]
    assert F.avg_pool1d(x[0, :, 0], 2).item() == -1
    for dtype, value in ((torch.int64, least), (torch.int32, -(2**31)), (torch.uint16, 2**16 - 1)):
        matrix = torch.full((2, 2), value, dtype=torch.int64).to(dtype)
        product = torch.sparse.mm(matrix.to_sparse_csr(), matrix)
        bits = torch.iinfo(dtype).bits
        wanted = 2 * value * value % 2**bits
        assert [each % 2**bits for each in product.flatten().tolist()] == [wanted] * 4


def test_indices_that_others_have_changed_since_are_not_followed():
    """Writes through arrays of NumPy leave no trace that a backward pass could see."""
    table = torch.ones(4, 3, requires_grad=True)
    index = torch.tensor([0, 1, 1])
    out = F.embedding(index, table, scale_grad_by_freq=True)
    index.numpy()[1:] = 2**40
    out.sum().backward()
    assert table.grad is not None and table.grad[0].tolist() == [1, 1, 1]
    for format in (torch.contiguous_format, torch.channels_last):
        x = torch.randn(2, 3, 4, 4).contiguous(memory_format=format).requires_grad_()
        pooled, chosen = F.max_pool2d(x, 2, return_indices=True)
        chosen.numpy()[0, 0] = 2**40
        with pytest.raises(IndexError, match="out of bounds"):
            pooled.sum().backward()


def test_strides_of_single_positions_may_be_any_number() -> None:
    most = 2**63 - 1
    row = torch.empty_strided((1, 3), (most, 1), dtype=torch.complex64).fill_(1j)
    assert (row @ torch.ones(3, 2, dtype=torch.complex64)).tolist() == [[3j, 3j]]
    parts = torch.ones(1).as_strided((1, 1), (most, 4)).split(1)
    assert [part.shape for part in parts] == [(1, 1)]
    assert torch.ones(1).as_strided((1, 1), (most, 4)).diagonal().tolist() == [1]
    assert torch.ones(5).as_strided((1, 1), (most, 4), 4)[1:].shape == (0, 1)
    assert torch.ones(9)[5:5].storage_offset() == 5


def test_memory_is_filled_and_not_what_strides_show() -> None:
    x = torch.empty_strided((2**62,), (0,), dtype=torch.bool)
    assert not x[0] and not x[2**62 - 1]
    assert not torch.empty_strided((2, 3), (1, 2), dtype=torch.bool).any()


def test_rows_that_cannot_be_counted_are_refused() -> None:
    empty = torch.sparse_coo_tensor(torch.empty(2, 0), torch.empty(0), (2**40, 1))
    for x in (empty, torch.empty(2**40, 1, layout=torch.sparse_csc)):
        with pytest.raises(RuntimeError, match="cannot create 1099511627776 tensors"):
            torch.unbind(x)
    for layout in (torch.sparse_csr, torch.sparse_csc):
        with pytest.raises(RuntimeError, match="too many"):
            torch.eye(2**63 - 1, layout=layout)


def test_windows_that_leave_no_output_are_refused() -> None:
    x = torch.zeros(3, 3, 1)
    with pytest.raises(RuntimeError, match=r"max_unpool2d: .* has no output"):
        F.max_unpool2d(x, x.long(), -3, -2147483649)
    coo = torch.eye(3).to_sparse()
    with pytest.raises(RuntimeError, match="on cpu and indices on meta"):
        torch._C._sparse_values_at(coo, torch.zeros(2, 3, dtype=torch.int64, device="meta"))
