"""Fourier transforms beyond samples: many lengths, errors, short-time transforms and windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flambeau as torch

LENGTHS = [*range(1, 70), 121, 128, 343, 1000, 1009, 4096, 4099, 2 * 3 * 5 * 7 * 11 * 13]


def relative(got: Any, want: Any) -> float:
    return float(np.abs(np.array(got.tolist()) - want).max() / np.abs(want).max())


@pytest.mark.parametrize("single", [False, True])
def test_transforms_of_every_length_equal_numpys(single: bool) -> None:
    rng = np.random.default_rng(0)
    bound = 1e-5 if single else 1e-13
    for n in LENGTHS:
        for lines in (1, 18):
            x = rng.standard_normal((lines, n))
            c = x + 1j * rng.standard_normal((lines, n))
            half = np.fft.rfft(x)
            real = torch.tensor(x, dtype=torch.float32 if single else torch.float64)
            dtype = torch.complex64 if single else torch.complex128
            full = torch.tensor(c, dtype=dtype)
            assert relative(torch.fft.fft(full), np.fft.fft(c)) < bound, n
            assert relative(torch.fft.ifft(full), np.fft.ifft(c)) < bound, n
            assert relative(torch.fft.rfft(real), half) < bound, n
            back = torch.fft.irfft(torch.tensor(half, dtype=dtype), n=n)
            assert relative(back, x) < bound, n
            assert relative(torch.fft.fft(full.t(), dim=0), np.fft.fft(c).T) < bound, n


@pytest.mark.parametrize("single", [False, True])
def test_any_number_of_short_lines_equals_numpys(single: bool) -> None:
    rng = np.random.default_rng(1)
    bound = 1e-5 if single else 1e-13
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33):
        for lines in (2, 3, 5, 8, 11, 31, 150):
            wide = rng.standard_normal((lines, n + 3)) + 1j * rng.standard_normal((lines, n + 3))
            full = torch.tensor(wide).to(torch.complex64 if single else torch.complex128)
            c, x = wide[:, :n], wide.real[:, :n]
            real = full.real.contiguous()[:, :n]  # lines that do not follow one another
            assert relative(torch.fft.fft(full[:, :n]), np.fft.fft(c)) < bound, (n, lines)
            assert (
                relative(torch.fft.rfft(real, norm="ortho"), np.fft.rfft(x, norm="ortho")) < bound
            )
            half = full[:, : n // 2 + 1]
            assert relative(torch.fft.irfft(half, n), np.fft.irfft(c[:, : n // 2 + 1], n)) < bound


ONE = torch.ones(3, 4)
FAILURES: list[tuple[Any, type[Exception], str]] = [
    (lambda: torch.fft.fft(ONE, n=0), RuntimeError, r"Invalid number of data points \(0\)"),
    (lambda: torch.fft.fft(ONE, norm="x"), RuntimeError, 'Invalid normalization mode: "x"'),
    (lambda: torch.fft.fft(ONE, dim=5), IndexError, "Dimension out of range"),
    (lambda: torch.fft.rfft(ONE + 0j), TypeError, "rfft expects a real input tensor, but got Comp"),
    (lambda: torch.fft.fft(ONE.half()), NotImplementedError, "Unsupported dtype Half"),
    (lambda: torch.fft.fftn(ONE, dim=(0, 0)), RuntimeError, "FFT dims must be unique"),
    (lambda: torch.fft.fftn(ONE, s=(1, 2, 3)), RuntimeError, "Got shape with 3 values but input"),
    (lambda: torch.fft.rfftn(ONE, dim=()), RuntimeError, "must transform at least one axis"),
    (lambda: torch.stft(ONE[0], 2), RuntimeError, "stft requires the return_complex parameter"),
    (lambda: torch.istft(ONE, 4), TypeError, "istft requires a complex-valued input tensor"),
]


@pytest.mark.parametrize("case", range(len(FAILURES)))
def test_failures_have_pytorchs_type_and_words(case: int) -> None:
    run, error, words = FAILURES[case]
    with pytest.raises(error, match=words):
        run()


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
def test_short_time_transforms_invert_each_other(center: bool, normalized: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 96, dtype=torch.float64)
    window = torch.hamming_window(16, dtype=torch.float64)
    options = {"window": window, "center": center, "normalized": normalized}
    spectra = x.stft(16, 4, return_complex=True, **options)
    assert spectra.shape == (2, 9, 25 if center else 21)
    torch.testing.assert_close(spectra.istft(16, 4, **options), x)
    first = torch.fft.rfft(x[0, 24:40] * window, norm="ortho" if normalized else None)
    torch.testing.assert_close(spectra[0, :, 8 if center else 6], first)


def test_short_time_transforms_have_derivatives() -> None:
    torch.manual_seed(0)
    x = torch.randn(24, dtype=torch.float64, requires_grad=True)
    window = torch.hamming_window(8, dtype=torch.float64)

    def there_and_back(signal: Any) -> Any:
        spectra = torch.stft(signal, 8, window=window, return_complex=True)
        return torch.istft(spectra * spectra, 8, window=window)

    assert torch.autograd.gradcheck(there_and_back, [x])


def test_windows_equal_scipys() -> None:
    from scipy.signal import windows

    ours: Any = torch.signal.windows
    for sym in (True, False):
        for size in (0, 1, 2, 7, 12):
            for name, options in (
                ("bartlett", {}),
                ("blackman", {}),
                ("cosine", {}),
                ("exponential", {"tau": 2.0}),
                ("gaussian", {"std": 1.5}),
                ("general_cosine", {"a": [0.4, 0.5, 0.1]}),
                ("general_hamming", {"alpha": 0.6}),
                ("hamming", {}),
                ("hann", {}),
                ("nuttall", {}),
            ):
                got = getattr(ours, name)(size, sym=sym, dtype=torch.float64, **options)
                want = getattr(windows, name)(size, sym=sym, **options)
                assert np.allclose(got.tolist(), want, atol=1e-12), (name, size, sym)
    with pytest.raises(ValueError, match="requires non-negative window length, got M=-1"):
        ours.hann(-1)


@pytest.mark.parametrize("n", [1, 2, 4, 6, 8, 12, 16, 30, 64, 128, 250])
@pytest.mark.parametrize("count", [1, 3, 17, 130, 300])
def test_many_lines_of_any_length_and_spacing(n: int, count: int) -> None:
    """Lines are transposed several at a time: as rows, as columns, and as parts of longer rows."""
    rng = np.random.default_rng(n)
    values = rng.normal(size=(2, count, n + 1)) + 1j * rng.normal(size=(2, count, n + 1))
    x = torch.from_numpy(values)
    for lines, exact in [(x[..., :n], values[..., :n]), (x.transpose(1, 2), values.swapaxes(1, 2))]:
        close = {"rtol": 1e-9, "atol": 1e-9}
        np.testing.assert_allclose(torch.fft.fft(lines).numpy(), np.fft.fft(exact), **close)
        real = torch.fft.rfft(lines.real)
        np.testing.assert_allclose(real.numpy(), np.fft.rfft(exact.real), **close)
        size = lines.shape[-1]
        back = torch.fft.irfft(real, n=size).numpy()
        np.testing.assert_allclose(back, np.fft.irfft(np.fft.rfft(exact.real), n=size), **close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("pitch", "n"), [(9, 8), (33, 32), (101, 100), (34, 32), (9, 7)])
def test_rows_of_real_numbers_may_lie_any_distance_apart(dtype, pitch, n) -> None:
    memory = torch.randn(40, pitch, dtype=dtype)
    rows = memory[:, :n]
    torch.testing.assert_close(torch.fft.rfft(rows), torch.fft.rfft(rows.contiguous()))
    torch.testing.assert_close(torch.fft.rfft2(rows), torch.fft.rfft2(rows.contiguous()))
    frames = memory.flatten().unfold(0, n, 3)
    torch.testing.assert_close(torch.fft.rfft(frames), torch.fft.rfft(frames.contiguous()))
    torch.testing.assert_close(torch.fft.irfft(torch.fft.rfft(rows), n), rows.contiguous())


def test_shifts_and_turns_are_one_step_of_the_graph():
    x = torch.arange(12.0, dtype=torch.float64).reshape(4, 3).requires_grad_()
    for step, name in (
        (torch.fft.fftshift, "RollBackward0"),
        (torch.fft.ifftshift, "RollBackward0"),
        (torch.rot90, "Rot90Backward0"),
        (lambda a: torch.rot90(a, 3), "Rot90Backward0"),
        (lambda a: torch.rot90(a, 2, (1, 0)), "Rot90Backward0"),
    ):
        assert step(x).grad_fn.name() == name
        assert torch.autograd.gradcheck(step, x) and torch.autograd.gradgradcheck(step, x)


REAL_LENGTHS = [1, 2, 3, 4, 5, 8, 16, 17, 19, 23, 34, 64, 95, 256, 257, 391, 1000, 1024]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", REAL_LENGTHS)
def test_transforms_of_real_numbers_are_those_of_complex_ones(dtype: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    bound = 10 * torch.finfo(dtype).eps * np.sqrt(n) * np.log2(n + 1)
    for count in (1, 3, 17, 70):  # lines alone and several at once, and a rest of them
        x = rng.standard_normal((count, n))
        real = torch.tensor(x).to(dtype)
        for ours, theirs in ((torch.fft.fft, np.fft.fft), (torch.fft.ifft, np.fft.ifft)):
            expected = theirs(x)
            size = np.abs(expected).max() + 1e-30
            for given in (real, real.T.contiguous().T, real.to(torch.complex128)):
                found = ours(given).numpy()
                assert np.abs(found - expected).max() <= bound * size
            assert ours(real).dtype == dtype.to_complex()
        assert np.abs(torch.fft.fft(real, dim=0).numpy() - np.fft.fft(x, axis=0)).max() < 1e-2


def test_transforms_of_real_numbers_in_several_dimensions_and_their_gradients() -> None:
    x = torch.randn(3, 5, 8, dtype=torch.float64, requires_grad=True)
    for shape, dims in ((None, None), ((4, 9), (0, 2)), ((8,), (1,))):
        for name in ("fftn", "ifftn"):
            found = getattr(torch.fft, name)(x, shape, dims)
            expected = getattr(np.fft, name)(x.detach().numpy(), shape, dims)
            assert np.allclose(found.detach().numpy(), expected)
            z = getattr(torch.fft, name)(x.detach().to(torch.complex128), shape, dims)
            assert torch.allclose(found.detach(), z)
    assert torch.fft.fftn(x, dim=()).is_complex()
    for dim in (0, 1, 2):
        assert torch.autograd.gradcheck(lambda t, d=dim: torch.fft.fft(t, dim=d), (x,))
        assert torch.autograd.gradcheck(lambda t, d=dim: torch.fft.ifft(t, dim=d), (x,))
    assert torch.autograd.gradgradcheck(lambda t: torch.fft.fft2(t), (x[0],))
    assert torch.fft.fft(torch.arange(6)).dtype == torch.complex64
