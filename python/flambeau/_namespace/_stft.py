"""Short-time Fourier transforms: spectra of overlapping segments of a signal, and the way back."""

from __future__ import annotations

import warnings

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["istft", "stft"]

_ops: Any = _C


def _described(op: str, x: Any, **arguments: Any) -> str:
    """The call as PyTorch's messages of these functions show it."""

    def word(value: Any) -> str:
        if isinstance(value, _C.Tensor):
            return f"{value.type()}{{{list(value.shape)}}}"
        return str(int(value)) if isinstance(value, bool) else str(value)

    listed = ", ".join(f"{name}={word(value)}" for name, value in arguments.items())
    return f"{op}({x.type()}{list(x.shape)}, {listed})"


def _full_window(window: Any, win_length: int, n_fft: int, like: Any) -> Any:
    """The window in the middle of n_fft elements, or None where it is one everywhere."""
    if window is None:
        if win_length == n_fft:
            return None
        window = _ops.ones(win_length, dtype=like.abs().dtype, device=like.device)
    left = (n_fft - win_length) // 2
    if win_length < n_fft:
        window = _ops.constant_pad_nd(window, (left, n_fft - win_length - left))
    return window


def _check_stft(call: str, x: Any, n_fft: int, hop: int, length: int, window: Any) -> None:
    if not (x.is_floating_point() or x.is_complex()):
        raise NotImplementedError(f"{call} : expected a tensor of floating point or complex values")
    if x.dim() not in (1, 2):
        raise RuntimeError(f"{call} : expected a 1D or 2D tensor")
    if not 0 < n_fft <= x.shape[-1]:
        raise RuntimeError(f"{call} : expected 0 < n_fft < {x.shape[-1]}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"{call} : expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise RuntimeError(
            f"{call} : expected 0 < win_length <= n_fft, but got win_length={length}"
        )
    if window is not None and (window.dim() != 1 or window.shape[0] != length):
        raise RuntimeError(
            f"{call} : expected a 1D window tensor of size equal to win_length={length}, but got "
            f"window with size {list(window.shape)}"
        )


def _wants_complex(return_complex: bool | None, complex_in: bool) -> bool:
    """Whether stft is to give complex numbers: of complex ones it does where nothing is said."""
    if return_complex is None and not complex_in:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will "
            "further require that return_complex=True in a future PyTorch release."
        )
    if return_complex is False:
        warnings.warn(
            "stft with return_complex=False is deprecated. In a future pytorch release, stft will "
            "return complex tensors for all inputs, and return_complex=False will raise an error. "
            "view_as_real of the complex output is the old format.",
            stacklevel=3,
        )
    return return_complex is not False


def stft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    """The Fourier transforms of windows of ``n_fft`` elements, each ``hop_length`` after the last.

    Gives a tensor of (batch,) frequencies and frames; complex, or with ``return_complex=False`` a
    further dimension of size two.
    """
    x = input
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false.")
    if center:
        from flambeau.nn.functional import pad

        wide = x.view([1] * (3 - x.dim()) + list(x.shape)) if x.dim() < 3 else x
        sides = n_fft // 2
        x = pad(wide, (sides, sides), pad_mode).view(*x.shape[:-1], -1)
    shown = {"n_fft": n_fft, "hop_length": hop, "win_length": length, "window": window}
    shown |= {"normalized": normalized, "onesided": onesided, "return_complex": return_complex}
    call = _described("stft", x, **shown, align_to_window=align_to_window)
    complex_in = x.is_complex() or (window is not None and window.is_complex())
    return_complex = _wants_complex(return_complex, complex_in)
    _check_stft(call, x, n_fft, hop, length, window)
    if onesided and complex_in:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if onesided is None:
        onesided = not complex_in
    if window is None:
        warnings.warn(
            "A window was not provided. A rectangular window will be applied, which is known to "
            "cause spectral leakage. Give a window such as torch.hann_window, or window=torch."
            "ones(win_length) to be spared this warning.",
            stacklevel=2,
        )
    full = _full_window(window, length, n_fft, x)
    if align_to_window and length < n_fft:
        left = (n_fft - length) // 2
        x = _ops.constant_pad_nd(x, (left, n_fft - length - left))
    frames = x.unfold(-1, n_fft, hop)
    if full is not None:
        frames = frames * full
    norm = "ortho" if normalized else None
    spectra = _ops.fft_rfft(frames, norm=norm) if onesided else _ops.fft_fft(frames, norm=norm)
    spectra = spectra.transpose(-2, -1)
    return spectra if return_complex else _ops.view_as_real(spectra)


def _overlap_add(frames: Any, hop: int) -> Any:
    """The sum of frames (..., count, size), each moved hop elements further than the last."""
    *batch, count, size = frames.shape
    starts = _ops.arange(count, device=frames.device).unsqueeze(1) * hop
    positions = (starts + _ops.arange(size, device=frames.device)).reshape(-1)
    total = frames.new_zeros(*batch, (count - 1) * hop + size)
    return _ops.index_add(total, -1, positions, frames.reshape(*batch, count * size))


def _check_istft(
    call: str, x: Any, n_fft: int, hop: int, win: int, window: Any, onesided: bool
) -> None:
    if x.numel() == 0:
        raise RuntimeError(f"{call} : input tensor cannot be empty.")
    if x.dim() not in (2, 3):
        raise RuntimeError(
            f"{call} : expected a tensor with 3 or 4 dimensions, but got {x.dim() + 1}"
        )
    if x.shape[-2] != (n_fft // 2 + 1 if onesided else n_fft):
        formula = "n_fft / 2 + 1 when onesided=True" if onesided else "n_fft when onesided=False"
        raise RuntimeError(
            f"{call} : expected the frequency dimension (3rd to the last) of the input tensor to "
            f"match {formula}, but got {x.shape[-2]}"
        )
    if not 0 < hop <= win:
        raise RuntimeError(f"{call} : expected 0 < hop_length <= win_length")
    if not 0 < win <= n_fft:
        raise RuntimeError(f"{call} : expected 0 < win_length <= n_fft")
    if window is not None and (window.dim() != 1 or window.shape[0] != win):
        raise RuntimeError(
            f"{call} : Invalid window shape. window has to be 1D and length of `win_length`"
        )


def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """The signal whose short-time Fourier transform is closest to ``input``."""
    win = n_fft if win_length is None else win_length
    hop = n_fft // 4 if hop_length is None else hop_length
    if not input.is_complex():
        raise TypeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    shown = {"n_fft": n_fft, "hop_length": hop, "win_length": win, "window": window}
    shown |= {"center": center, "normalized": normalized, "onesided": onesided}
    call = _described("istft", input, **shown, length=length, return_complex=return_complex)
    if onesided is None:
        onesided = input.dim() < 2 or input.shape[-2] != n_fft
    _check_istft(call, input, n_fft, hop, win, window, onesided)
    if return_complex and onesided:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if window is None:
        warnings.warn(
            "A window was not provided. A rectangular window will be applied. Give the window "
            "that stft was given, or window=torch.ones(win_length) to be spared this warning.",
            stacklevel=2,
        )
    norm = "ortho" if normalized else None
    spectra = input.transpose(-2, -1)
    if return_complex:
        frames = _ops.fft_ifft(spectra, norm=norm)
    else:
        half = spectra if onesided else spectra[..., : n_fft // 2 + 1]
        frames = _ops.fft_irfft(half, n_fft, norm=norm)
    full = _full_window(window, win, n_fft, frames)
    if full is None:
        full = _ops.ones(n_fft, dtype=frames.abs().dtype, device=frames.device)
    signal = _overlap_add(frames * full, hop)
    weights = _overlap_add((full * full).expand(frames.shape[-2], n_fft), hop)
    start = n_fft // 2 if center else 0
    available = signal.shape[-1]
    end = start + length if length is not None else available - (n_fft // 2 if center else 0)
    signal, weights = signal[..., start:end], weights[..., start:end]
    if weights.abs().min().item() < 1e-11:
        raise RuntimeError(f"{call} window overlap add min: 1")
    result = signal / weights
    if end > available:
        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded "
            "with zeros in the tail. Please check your center and hop_length settings.",
            stacklevel=2,
        )
        result = _ops.constant_pad_nd(result, (0, end - available))
    return result
