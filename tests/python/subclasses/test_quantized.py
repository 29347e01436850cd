"""Tensors of integers that stand for real numbers by a scale and a zero point."""

import copy
import io
import pickle

import numpy as np
import pytest

import flambeau as torch

F = torch.nn.functional
LIMITS = {"qint8": (-128, 127), "quint8": (0, 255), "qint32": (-(2**31), 2**31 - 1)}
KINDS = sorted(LIMITS)


def by_hand(x, scale, zero, name):
    """PyTorch's formula, in single precision, which NumPy rounds to even as well."""
    inverse = np.float32(1) / np.asarray(scale, dtype=np.float32)
    positions = np.rint(x.numpy() * inverse) + np.asarray(zero, dtype=np.float32)
    low, high = LIMITS[name]
    return np.clip(positions.astype(np.float64), low, high).astype(np.int64)


def sample(name="quint8", shape=(2, 3, 4, 5), scale=0.05, zero=3):
    torch.manual_seed(0)
    return torch.quantize_per_tensor(torch.randn(shape) * 2, scale, zero, getattr(torch, name))


def by_channel(axis=1, shape=(2, 3, 4)):
    torch.manual_seed(0)
    count = shape[axis]
    scales = 0.1 * torch.arange(1, count + 1)
    x = torch.randn(shape)
    return x, torch.quantize_per_channel(x, scales, torch.arange(count), axis, torch.qint8)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (7,), (5, 33), (2, 3, 4, 5)])
def test_numbers_become_the_nearest_integers(name, shape):
    dtype = getattr(torch, name)
    for seed, (scale, zero) in enumerate([(0.1, 0), (1 / 3, 7), (2.0, 100), (1e-3, 1)]):
        torch.manual_seed(seed)
        x = torch.randn(shape) * scale * 60
        q = torch.quantize_per_tensor(x, scale, zero, dtype)
        assert q.dtype is dtype and q.is_quantized and q.shape == x.shape
        assert (q.q_scale(), q.q_zero_point()) == (scale, zero)
        assert (q.int_repr().numpy() == by_hand(x, scale, zero, name)).all()
        real = (q.int_repr().long() - zero).float() * torch.tensor(scale)
        assert torch.equal(q.dequantize(), real)
        assert torch.equal(torch.dequantize(q), real)


def test_ties_go_to_the_even_neighbour_before_the_zero_point_is_added():
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5])
    q = torch.quantize_per_tensor(x, 1.0, 3, torch.qint8)
    assert q.int_repr().tolist() == [3, 5, 5, 3, 1]


@pytest.mark.parametrize("zero", [0, 100, 127])
def test_what_lies_outside_becomes_an_end(zero):
    x = torch.tensor([float("inf"), -float("inf"), 1e30, -1e30, float("nan")])
    for name, (low, high) in LIMITS.items():
        q = torch.quantize_per_tensor(x, 0.1, zero, getattr(torch, name)).int_repr().tolist()
        assert q[:4] == [high, low, high, low]
        assert q[4] == (low if name == "qint32" else high)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_channels_have_scales_of_their_own(name, axis):
    torch.manual_seed(axis)
    x = torch.randn(3, 4, 5) * 10
    shape = [1, 1, 1]
    shape[axis] = x.shape[axis]
    scales, zeros = torch.rand(x.shape[axis]) + 0.01, torch.arange(x.shape[axis])
    q = torch.quantize_per_channel(x, scales, zeros, axis, getattr(torch, name))
    expected = by_hand(x, scales.view(shape).numpy(), zeros.view(shape).numpy(), name)
    assert (q.int_repr().numpy() == expected).all()
    assert q.qscheme() is torch.per_channel_affine and q.q_per_channel_axis() == axis
    assert q.q_per_channel_scales().dtype is torch.float64
    assert q.q_per_channel_zero_points().tolist() == zeros.tolist()
    real = (q.int_repr().float() - zeros.view(shape)) * scales.view(shape)
    assert torch.equal(q.dequantize(), real)


def test_zero_points_that_are_no_integers_are_rounded_with_the_number():
    x = torch.tensor([[0.0, 0.05], [0.0, 0.2]])
    zeros = torch.tensor([3.5, 2.25])
    q = torch.quantize_per_channel(x, torch.tensor([0.1, 0.2]), zeros, 0, torch.quint8)
    assert q.qscheme() is torch.per_channel_affine_float_qparams
    assert q.int_repr().tolist() == [[4, 4], [2, 3]]
    assert q.dequantize()[1].tolist() == pytest.approx([-0.05, 0.15])


def test_lists_and_tensors_of_scales():
    x = torch.tensor([1.0, 2.0])
    pair = torch.quantize_per_tensor(
        [x, x], torch.tensor([0.5, 0.25]), torch.tensor([0, 1]), torch.quint8
    )
    assert [q.int_repr().tolist() for q in pair] == [[2, 4], [5, 9]]
    one = torch.quantize_per_tensor(x, torch.tensor(0.5), torch.tensor(2), torch.qint8)
    assert (one.q_scale(), one.q_zero_point()) == (0.5, 2)
    assert torch.equal(torch.dequantize(pair)[1], x)
    assert torch.dequantize(torch.tensor([1, 2], dtype=torch.int64)).tolist() == [1.0, 2.0]
    assert torch.tensor([1.5], dtype=torch.float64).dequantize().dtype is torch.float32


@pytest.mark.parametrize(
    ("values", "dtype", "reduce", "scale", "zero"),
    [
        ([1.0], "quint8", False, 1 / 255, 0),
        ([-1.0], "qint8", False, 1 / 255, 127),
        ([0.0], "quint8", False, 0.1, 0),
        ([-1.0, 3.0], "quint8", False, 4 / 255, 64),
        ([-1.0, 3.0], "qint8", True, 4 / 127, -32),
    ],
)
def test_a_scale_that_covers_the_values(values, dtype, reduce, scale, zero):
    x = torch.tensor(values)
    q = torch.quantize_per_tensor_dynamic(x, getattr(torch, dtype), reduce)
    assert q.q_scale() == pytest.approx(scale, rel=1e-12) and q.q_zero_point() == zero


def test_other_ways_to_make_them():
    ints = torch.tensor([[1, 2], [3, 4]], dtype=torch.uint8)
    q = torch._make_per_tensor_quantized_tensor(ints, 0.5, 1)
    assert q.dtype is torch.quint8 and q.dequantize().tolist() == [[0.0, 0.5], [1.0, 1.5]]
    zeros = torch.tensor([1, 3])
    c = torch._make_per_channel_quantized_tensor(ints, torch.tensor([0.5, 1.0]), zeros, 0)
    assert c.dequantize().tolist() == [[0.0, 0.5], [0.0, 1.0]]
    e = torch._empty_affine_quantized([2, 3], scale=0.1, zero_point=2, dtype=torch.qint32)
    assert e.shape == (2, 3) and e.q_zero_point() == 2 and e.element_size() == 4
    assert torch.empty_quantized([5], e).q_scale() == 0.1
    p = torch._empty_per_channel_affine_quantized(
        [2, 3], scales=torch.ones(3), zero_points=torch.zeros(3, dtype=torch.long), axis=1,
        dtype=torch.qint8,
    )  # fmt: skip
    assert p.q_per_channel_axis() == 1


def test_dtypes_and_schemes():
    assert isinstance(torch.qint8, torch.dtype) and repr(torch.quint8) == "torch.quint8"
    assert [d.itemsize for d in (torch.qint8, torch.quint8, torch.qint32)] == [1, 1, 4]
    for thing in (torch.qint32, torch.per_channel_affine, torch.per_tensor_symmetric):
        assert pickle.loads(pickle.dumps(thing)) is thing and copy.deepcopy(thing) is thing
    assert repr(torch.per_channel_symmetric) == "torch.per_channel_symmetric"
    assert isinstance(torch.per_tensor_affine, torch.qscheme)
    with pytest.raises(TypeError, match="cannot create"):
        torch.qscheme()
    with pytest.raises(RuntimeError, match="quantize_per_tensor"):
        torch.empty(3, dtype=torch.qint8)
    with pytest.raises(RuntimeError, match="quantize_per_tensor"):
        torch.ones(3).to(torch.quint8)


def test_text():
    x = torch.tensor([[0.0, 1.0], [2.5, -0.5]])
    q = torch.quantize_per_tensor(x, 0.1, 5, torch.quint8)
    assert repr(q) == (
        "tensor([[ 0.0000,  1.0000],\n"
        "        [ 2.5000, -0.5000]], size=(2, 2), dtype=torch.quint8,\n"
        "       quantization_scheme=torch.per_tensor_affine, scale=0.1, zero_point=5)"
    )
    c = torch.quantize_per_channel(
        x, torch.tensor([0.5, 0.25]), torch.tensor([1, 2]), 0, torch.qint8
    )
    assert repr(c) == (
        "tensor([[ 0.0000,  1.0000],\n"
        "        [ 2.5000, -0.5000]], size=(2, 2), dtype=torch.qint8,\n"
        "       quantization_scheme=torch.per_channel_affine,\n"
        "       scale=tensor([0.5000, 0.2500], dtype=torch.float64),\n"
        "       zero_point=tensor([1, 2]), axis=0)"
    )
    assert str(q[:0]).startswith("tensor([], size=(0, 2), dtype=torch.quint8,")
    assert f"{q[0, 1]:.1f}" == "1.0" and q.type() == "torch.quantized.QUInt8Tensor"


VIEWS = {
    "view": lambda x: x.view(6, 20),
    "reshape": lambda x: x.transpose(0, 1).reshape(-1),
    "flatten": lambda x: x.flatten(1),
    "permute": lambda x: x.permute(0, 2, 3, 1),
    "squeeze": lambda x: x[:1].squeeze(0).unsqueeze(-1),
    "T": lambda x: x[0, 0].T,
    "index": lambda x: x[1, :, None, ::2, ...],
    "ints": lambda x: x[:, torch.tensor([0, 2])],
    "mask": lambda x: x[torch.tensor([True, False])],
    "index_select": lambda x: x.index_select(2, torch.tensor([3, 0])),
    "split": lambda x: x.split(2, 3)[1],
    "unbind": lambda x: x.unbind(1)[2],
    "expand": lambda x: x[:1].expand(3, 3, 4, 5),
    "repeat": lambda x: x.repeat(2, 1, 1, 1),
    "flip": lambda x: x.flip(0, 3),
    "cat": lambda x: torch.cat([x, x], 1),
    "stack": lambda x: torch.stack([x, x]),
    "clone": lambda x: x.clone(memory_format=torch.channels_last),
    "contiguous": lambda x: x.permute(3, 1, 0, 2).contiguous(),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x[:, :1].expand(2, 4, 4, 5), 2),
    "reflect": lambda x: F.pad(x.float() if not x.is_quantized else x, (1, 1, 1, 1), "reflect"),
    "max": lambda x: x.max(1)[0],
    "sort": lambda x: x.sort(2, descending=True)[0],
    "topk": lambda x: x.topk(2)[0],
    "max_pool2d": lambda x: F.max_pool2d(x.float() if not x.is_quantized else x, 2),
    "nearest": lambda x: F.interpolate(x.float() if not x.is_quantized else x, size=(3, 7)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", VIEWS)
def test_what_moves_elements_moves_integers(kind, name):
    q = sample(kind)
    moved, expected = VIEWS[name](q), VIEWS[name](q.int_repr())
    assert moved.dtype is q.dtype and (moved.q_scale(), moved.q_zero_point()) == (0.05, 3)
    assert moved.stride() == expected.stride()
    assert torch.equal(moved.int_repr().long(), expected.long())


def test_views_share_memory():
    q = sample()
    q[0].fill_(1.0)
    assert (q[0] == 1.0).all() and q.view(-1).data_ptr() == q.data_ptr()
    q[1, 0] = 0.5
    assert (q[1, 0] == 0.5).all()
    q[q < 0] = 0.0
    assert not (q < 0).any()
    other = sample(scale=0.1, zero=50)
    q[1] = other[1]
    assert torch.equal(q[1].dequantize().clamp(min=-1), q[1].dequantize())
    assert (q[1].dequantize() - other[1].dequantize().clamp(min=-0.15)).abs().max() < 0.03
    q.copy_(other)
    assert torch.equal(q, other) and q.q_scale() == 0.1


def test_parts_of_channels():
    _, q = by_channel()
    whole = q.dequantize()
    for part in (lambda t: t[0], lambda t: t[:, 1], lambda t: t[:, 1:], lambda t: t[..., 2],
                 lambda t: t[1:, ::2], lambda t: t.unbind(1)[2], lambda t: t.split(2, 1)[0],
                 lambda t: t.flatten(0, 0), lambda t: t.unsqueeze(0), lambda t: t.view(2, 1, 3, 4),
                 lambda t: t.view(-1).view(2, 3, 4), lambda t: t.clone(), lambda t: t[:, :1],
                 lambda t: t.narrow(1, 1, 2), lambda t: t.detach().contiguous()):  # fmt: skip
        assert torch.equal(part(q).dequantize(), part(whole))
    assert q[:, 1].qscheme() is torch.per_tensor_affine
    assert q[0].q_per_channel_axis() == 0 and q[..., 0].q_per_channel_axis() == 1
    q[0] = 0.25
    assert (q[0].dequantize() - 0.25).abs().max() < 0.16
    refusals = [
        lambda: q.permute(2, 1, 0),
        lambda: q[torch.tensor([0])],
        lambda: q.view(-1).dequantize(),
        lambda: q.relu(),
        lambda: torch.cat([q, q]),
        lambda: q.max(),
        lambda: q.q_scale(),
        lambda: F.pad(q, (1, 1)),
    ]
    for refused in refusals:
        with pytest.raises(RuntimeError):
            refused()


def test_comparisons_are_of_numbers():
    a = torch.quantize_per_tensor(torch.tensor([0.0, 1.0, 2.0]), 0.5, 3, torch.quint8)
    b = torch.quantize_per_tensor(torch.tensor([0.0, 2.0, 1.0]), 0.25, 9, torch.qint8)
    assert (a == b).tolist() == [True, False, False] and (a < b).tolist() == [False, True, False]
    assert (a >= 1).tolist() == [False, True, True] and (a == 1.0).tolist() == [False, True, False]
    assert torch.equal(a, a.clone()) and not torch.equal(a, b) and not torch.equal(a, torch.ones(3))
    torch.testing.assert_close(a, a.clone())
    with pytest.raises(AssertionError):
        torch.testing.assert_close(a, a.flip(0))


@pytest.mark.parametrize("kind", KINDS)
def test_activations(kind):
    q = sample(kind)
    x = q.dequantize()

    def near(result, expected):
        assert result.dtype is q.dtype
        assert (result.dequantize() - expected).abs().max() <= result.q_scale() * 0.51

    near(q.relu(), x.relu())
    near(F.relu6(q), F.relu6(x))
    near(q.clamp(-0.1, 0.5), x.clamp(-0.1, 0.5))
    near(F.hardtanh(q, -0.1, 0.75), F.hardtanh(x, -0.1, 0.75))
    near(F.threshold(q, 0.3, 0.5), F.threshold(x, 0.3, 0.5))
    near(F.leaky_relu(q, 0.1), F.leaky_relu(x, 0.1))
    near(F.gelu(q), F.gelu(x))
    near(q.mean((2, 3)), x.mean((2, 3)))
    near(q.std(1), x.std(1))
    if kind != "qint32":
        near(q.tanh(), x.tanh().clamp(max=127 / 128))
        near(q.sigmoid(), x.sigmoid().clamp(max=255 / 256))
        near(F.hardsigmoid(q), F.hardsigmoid(x).clamp(max=255 / 256))
    near(F.avg_pool2d(q, 3, 1, 1), F.avg_pool2d(x, 3, 1, 1))
    near(F.adaptive_avg_pool2d(q, (3, 2)), F.adaptive_avg_pool2d(x, (3, 2)))
    near(F.interpolate(q, size=(7, 9), mode="bilinear"), F.interpolate(x, (7, 9), mode="bilinear"))
    near(F.pad(q, (1, 2), value=0.5), F.pad(x, (1, 2), value=0.5))
    written = q.clone()
    assert torch.nn.ReLU(inplace=True)(written) is written and torch.equal(written, q.relu())
    assert torch.quantized_max_pool2d(q, 2).shape == (2, 3, 2, 2)
    assert F.dropout(q, 0.5, False) is q and q.sigmoid().q_scale() in (2.0**-8, 2.0**-32)


def test_averages_round_as_pytorch_does_in_either_layout():
    ints = torch.tensor([[[[0, 1], [2, 3]], [[1, 2], [3, 4]]]], dtype=torch.int8)
    q = torch._make_per_tensor_quantized_tensor(ints, 1.0, 3)
    # Means 1.5 and 2.5: with the zero point, ties go to the even place; alone, to the even number.
    assert F.avg_pool2d(q, 2).int_repr().flatten().tolist() == [2, 2]
    by_pixels = q.contiguous(memory_format=torch.channels_last)
    assert F.avg_pool2d(by_pixels, 2).int_repr().flatten().tolist() == [1, 3]


def test_what_there_is_not_raises():
    q, x = sample(), torch.ones(2, 3, 4, 5)
    for refused in (lambda: q + q, lambda: -q, lambda: q.sum(), lambda: q.abs(), lambda: q @ q,
                    lambda: q.roll(1), lambda: F.softmax(q, 1), lambda: q.zero_(),
                    lambda: torch.where(q > 0, q, q), lambda: q.amax(), lambda: torch.max(q, q),
                    lambda: x.int_repr(), lambda: x.q_scale(), lambda: x.qscheme(),
                    lambda: torch.quantize_per_tensor(q, 0.1, 0, torch.quint8)):  # fmt: skip
        with pytest.raises(NotImplementedError, match="Could not run"):
            refused()
    for refused in (lambda: q + 1, lambda: q * x, lambda: x - q, lambda: q.float(),
                    lambda: q.to(torch.float32), lambda: q.tolist(), lambda: x.copy_(q),
                    lambda: q.copy_(x.double()), lambda: q.requires_grad_(), lambda: q.item(),
                    lambda: torch.allclose(q, q), lambda: q.q_per_channel_axis(),
                    lambda: torch.nn.Parameter(q), lambda: torch.result_type(q, x),
                    lambda: torch.as_tensor(q, dtype=torch.float32)):  # fmt: skip
        with pytest.raises(RuntimeError):
            refused()
    with pytest.raises(TypeError, match="QUInt8"):
        q.numpy()
    with pytest.raises(TypeError):
        np.asarray(q)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: torch.quantize_per_tensor(x, 0.1, 300, torch.quint8), "above upper bound"),
        (lambda x: torch.quantize_per_tensor(x, 0.1, -1, torch.quint8), "below lower bound"),
        (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.uint8), "not supported"),
        (lambda x: torch.quantize_per_tensor(x.double(), 0.1, 0, torch.quint8), "Float Tensor"),
        (lambda x: torch.quantize_per_tensor_dynamic(x, torch.qint32, False), "not supported"),
        (lambda x: torch.quantize_per_tensor_dynamic(x[:0], torch.qint8, False), "numel"),
        (lambda x: channels(x, [1.0, 1.0], [0, 0], -1), "axis out of range"),
        (lambda x: channels(x, [1.0, 1.0], [0, 0], 2), "axis out of range"),
        (lambda x: channels(x, [1.0], [0, 0], 0), "must match"),
        (lambda x: channels(x, [1.0], [0], 0), "must equal to channel"),
        (lambda x: channels(x, [1.0, 1.0], [0, 256], 0), "above upper bound"),
        (lambda x: channels(x, [1, 1], [0, 0], 0), "floating point"),
    ],
)
def test_what_cannot_be_quantized(call, error):
    with pytest.raises(RuntimeError, match=error):
        call(torch.ones(2, 3))


def channels(x, scales, zeros, axis):
    return torch.quantize_per_channel(
        x, torch.tensor(scales), torch.tensor(zeros), axis, torch.quint8
    )


def test_numbers_and_tensors_of_them():
    q = sample()
    one = q[0, 1, 2, 3]
    assert one.item() == float(one) == q.dequantize()[0, 1, 2, 3].item() and bool(one)
    assert torch.as_tensor(q) is q and torch.equal(torch.tensor(q.clone()), q)
    assert torch.tensor([one, one]).tolist() == [one.item()] * 2
    assert len(q) == 2 and [row.shape for row in q] == [(3, 4, 5)] * 2


def saved(value, **options):
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}])
def test_files_keep_them(options):
    q, (_, c) = sample(), by_channel()
    parameter = torch.nn.Parameter(q, requires_grad=False)
    held = {"q": q, "t": q.transpose(0, 1), "c": c, "p": parameter}
    read = torch.load(saved(held, **options))
    for name, value in held.items():
        assert torch.equal(read[name], value) and read[name].stride() == value.stride()
        assert repr(read[name]) == repr(value)
    assert read["t"].data_ptr() == read["q"].data_ptr()
    assert isinstance(read["p"], torch.nn.Parameter) and not isinstance(
        read["q"], torch.nn.Parameter
    )
    assert (
        q.storage().pickle_storage_type() == "QUInt8Storage"
        and q.storage()[0] == q._ints().view(-1)[0]
    )


def test_copies_and_pickles():
    q, (_, c) = sample(), by_channel()
    q.note = "kept"
    for value in (q, c, q[0], torch.nn.Parameter(q, False)):
        for made in (copy.deepcopy(value), pickle.loads(pickle.dumps(value)), copy.copy(value)):
            assert torch.equal(made, value) and made.stride() == value.stride()
    assert pickle.loads(pickle.dumps(q)).note == copy.deepcopy(q).note == "kept"
    pair = copy.deepcopy([q, q.view(-1)])
    pair[0].fill_(1.0)
    assert (pair[1] == 1.0).all() and not (q == 1.0).all()


def test_modules_hold_them():
    module = torch.nn.Module()
    module.register_buffer("weight", sample())
    other = torch.nn.Module()
    other.register_buffer("weight", sample(scale=0.5, zero=9))
    other.load_state_dict(module.state_dict())
    assert torch.equal(other.weight, module.weight) and other.weight.q_scale() == 0.05
    assert module.float().weight.is_quantized and module.to("cpu").weight.is_quantized


def test_arguments_by_name():
    q = sample()
    assert q.to(device="cpu", dtype=torch.quint8) is q and q.to(q, non_blocking=True) is q
    assert q.to(dtype=torch.quint8, copy=True) is not q
    assert torch.cat(tensors=(q, q), dim=1).shape == (2, 6, 4, 5)
    assert torch.equal(torch.clamp(input=q, max=0.5, min=0.0), q.clamp(0.0, 0.5))
    assert torch.max(input=q, dim=1, keepdim=True).values.shape == (2, 1, 4, 5)
    assert F.upsample(q, scale_factor=2).shape == (2, 3, 8, 10)
    with pytest.raises(NotImplementedError, match="out="):
        torch.cat([q, q], out=q.clone())
    with pytest.raises(NotImplementedError, match="not nested"):
        torch.ones(3).to_padded_tensor(0.0)
    with pytest.raises(AssertionError, match="XPU"):
        torch.ones(3).xpu()


def test_wrong_files_are_refused():
    q = sample()
    func, arguments = q.__reduce_ex__(2)
    for params in (
        (torch.per_tensor_symmetric, 0.1, 0),
        (torch.per_tensor_affine, 0.1),
        ("x", 1, 2),
    ):
        with pytest.raises(RuntimeError, match="qscheme"):
            func(*arguments[:4], params, *arguments[5:])
    with pytest.raises(RuntimeError, match="cannot be of"):
        func(torch.ones(3).storage(), *arguments[1:])


HARD = (0.0, -0.0, 1e-45, 0.5, 1.5, 2.5, -0.5, 127.4, 127.5, 255.5, -1e9, 3e9, -3e9, 1e38)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("scale", [1.0, 0.1, 1e-3, -2.0, 1e-46])
def test_hard_numbers_become_integers_wherever_they_stand(name, scale):
    """In whole registers, behind them, alone, between others and read backwards."""
    x = torch.tensor([*HARD, float("inf"), float("-inf")] * 9)[:143]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        expected = by_hand(x, scale, 3, name) if scale > 1e-40 else None
    make = getattr(torch, name)
    found = torch.quantize_per_tensor(x, scale, 3, make).int_repr()
    if expected is not None:
        assert found.tolist() == expected.tolist()
    for k in range(0, 143, 7):
        assert torch.quantize_per_tensor(x[k], scale, 3, make).int_repr() == found[k]
    spaced = torch.zeros(143, 3)
    spaced[:, 1] = x
    assert torch.quantize_per_tensor(spaced[:, 1], scale, 3, make).int_repr().equal(found)
    assert torch.quantize_per_tensor(x.flip(0), scale, 3, make).int_repr().equal(found.flip(0))
    one = x[:1].expand(4, 5)
    assert torch.quantize_per_tensor(one, scale, 3, make).int_repr().eq(found[0]).all()


@pytest.mark.parametrize("name", KINDS)
def test_what_is_no_number_becomes_an_end_of_the_integers(name):
    x = torch.full((40,), float("nan"))
    low, high = LIMITS[name]
    found = torch.quantize_per_tensor(x, 0.1, 3, getattr(torch, name)).int_repr()
    assert found.eq(low if name == "qint32" else high).all()
    scales, zeros = torch.full((40,), 0.1), torch.full((40,), 3)
    for zero in (zeros, zeros.float()):
        found = torch.quantize_per_channel(x, scales, zero, 0, getattr(torch, name)).int_repr()
        assert found.eq(low).all()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("inexact", [False, True])
def test_channels_of_every_layout(name, axis, inexact):
    x = torch.randn(5, 40, 17) * 30
    count = x.shape[axis]
    scales = torch.linspace(0.05, 2, count)
    zeros = torch.arange(count) + 1
    shape = [1] * axis + [count] + [1] * (2 - axis)
    wide = (x * scales.reciprocal().view(shape)).numpy()
    if inexact:
        zeros = zeros + 0.3
        positions = np.rint(wide + zeros.view(shape).numpy())
    else:
        positions = np.rint(wide) + zeros.view(shape).float().numpy()
    positions = np.clip(positions.astype("float64"), *LIMITS[name])
    real = (positions.astype("float32") - zeros.view(shape).float().numpy()) * scales.view(
        shape
    ).numpy()
    transposed = x.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    for each in (x, transposed, torch.stack([x, x], -1)[..., 0]):
        made = torch.quantize_per_channel(each, scales, zeros, axis, getattr(torch, name))
        assert made.stride() == (each + 0).stride()
        assert made.int_repr().tolist() == positions.tolist()
        assert made.dequantize().tolist() == real.tolist()
        assert made.dequantize().stride() == made.stride()


def test_integers_are_read_exactly():
    for dtype in (torch.int8, torch.uint8, torch.int32):
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        x = torch.linspace(low, high, 203, dtype=torch.float64).to(dtype)
        for zero in (low, high, 7):
            found = torch._make_per_tensor_quantized_tensor(x, 0.3, zero).dequantize()
            steps = (x.numpy().astype("int64") - zero).astype("float32")
            assert found.tolist() == (steps * np.float32(0.3)).tolist()


def test_zero_points_beyond_the_integers_are_refused_when_these_are_read():
    x = torch.ones(2, 2, dtype=torch.int8)
    for zero, word in ((128, "above upper"), (2**40, "above upper"), (-129, "below lower")):
        with pytest.raises(RuntimeError, match=word):
            torch._make_per_tensor_quantized_tensor(x, 0.1, zero).dequantize()
        scales = torch.tensor([0.1, 0.2])
        made = torch._make_per_channel_quantized_tensor(x, scales, torch.tensor([0, zero]), 0)
        with pytest.raises(RuntimeError, match=word):
            made.dequantize()


def test_copies_of_parts_and_writes_into_them():
    q = torch.quantize_per_tensor(torch.arange(12.0).reshape(3, 4), 0.5, 2, torch.quint8)
    x = q.dequantize()
    for call in (
        lambda t: t.narrow_copy(1, 1, 2),
        lambda t: torch.conj_physical(t),
        lambda t: torch.real(t),
        lambda t: torch.select_scatter(t, t[0], 0, 1),
        lambda t: torch.slice_scatter(t, t[:1], 0, 1, 2),
        lambda t: t.flip(0),
    ):
        found = call(q)
        assert found.is_quantized and found.q_scale() == 0.5 and found.q_zero_point() == 2
        assert torch.equal(found.dequantize(), call(x))
    assert torch.equal(torch.select_scatter(q, x[0], 0, 1).dequantize()[1], x[0])
    assert torch.fill(q, 2.0).dequantize().unique().tolist() == [2.0] and q.dequantize().equal(x)
    assert q.conj_physical_() is q
    for refused in (lambda: q.clamp_(0, 1), lambda: q.add_(x), lambda: q.lt_(1)):
        with pytest.raises(RuntimeError, match="promoteTypes"):
            refused()
