"""The operators that torchaudio brings compiled against PyTorch's libraries, written as ops of this
one: recursive filters, overdrive, alignment of labels with frames. `ops.load_library` registers
them in the place of torchaudio's own files.
"""

from __future__ import annotations

import flambeau
from flambeau import Tensor
from flambeau.library import Library

# The last one is a name only, and calling it says so.
_SCHEMAS = (
    "_lfilter_core_loop(Tensor input, Tensor coefficients, Tensor(a!) padded_output) -> ()",
    "_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor last_in, Tensor last_out, "
    "Tensor(a!) output) -> ()",
    "forced_align(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
    "int blank) -> (Tensor, Tensor)",
    "rnnt_loss_forward(Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, "
    "int blank, float clamp, bool fused_log_softmax) -> (Tensor, Tensor?)",
)


def _lfilter_core_loop(input: Tensor, coefficients: Tensor, padded_output: Tensor) -> None:
    """Filters (batch, channels, steps) by the results before; coefficients stand from the oldest
    to the one of the step itself, (channels, order).
    """
    before = coefficients.size(1) - 1
    oldest = coefficients[:, :-1]
    for step in range(input.size(-1)):
        past = (padded_output[:, :, step : step + before] * oldest).sum(-1)
        padded_output[:, :, step + before] = input[:, :, step] - past


def _overdrive_core_loop(
    waveform: Tensor, temp: Tensor, last_in: Tensor, last_out: Tensor, output: Tensor
) -> None:
    """Adds to each sample what a filter against slow drift makes of the distorted ones."""
    for step in range(waveform.size(-1)):
        last_out = temp[:, step] - last_in + 0.995 * last_out
        last_in = temp[:, step]
        output[:, step] = waveform[:, step] * 0.5 + last_out * 0.75


def forced_align(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """The most probable label of each frame of (1, frames, labels) that spells the targets, where
    blanks may stand between labels and must between equal ones.
    """
    if log_probs.size(0) != 1 or targets.size(0) != 1:
        raise RuntimeError(f"forced_align: expected a batch of 1, got {log_probs.size(0)}")
    scores, labels = log_probs[0, : int(input_lengths[0])], targets[0, : int(target_lengths[0])]
    steps, states = scores.size(0), 2 * labels.numel() + 1
    path = flambeau.full((states,), blank, dtype=labels.dtype, device=labels.device)
    path[1::2] = labels
    repeats = int((labels[1:] == labels[:-1]).sum())
    if steps < labels.numel() + repeats:
        raise RuntimeError(
            f"forced_align: targets length is too long for CTC: {steps} frames for "
            f"{labels.numel()} labels, {repeats} of them repeated"
        )
    never = -float("inf")
    may_skip = flambeau.zeros(states, dtype=flambeau.bool, device=labels.device)
    may_skip[3::2] = labels[1:] != labels[:-1]
    emitted = scores[:, path.long()]
    best = flambeau.full((states,), never, dtype=scores.dtype, device=scores.device)
    best[:2] = emitted[0, :2]
    moves = []
    for step in range(1, steps):
        padded = flambeau.nn.functional.pad(best, (2, 0), value=never)
        skipped = padded[:-2].masked_fill(~may_skip, never)
        best, moved = flambeau.stack((best, padded[1:-1], skipped)).max(0)
        best = best + emitted[step]
        moves.append(moved)
    state = states - 1 if states == 1 or bool(best[-1] > best[-2]) else states - 2
    found = [state]
    for moved in reversed(moves):
        state -= int(moved[state])
        found.append(state)
    return path[flambeau.tensor(found[::-1], device=path.device)][None], log_probs


_about = Library("_torchaudio", "DEF")
_about.define("cuda_version() -> int?")
_about.define("is_align_available() -> bool")
_about.impl("cuda_version", lambda: None, "CompositeExplicitAutograd")
_about.impl("is_align_available", lambda: True, "CompositeExplicitAutograd")
_library = Library("torchaudio", "DEF")
for _schema in _SCHEMAS:
    _library.define(_schema)
for _function in (_lfilter_core_loop, _overdrive_core_loop, forced_align):
    _library.impl(_function.__name__, _function, "CompositeExplicitAutograd")
