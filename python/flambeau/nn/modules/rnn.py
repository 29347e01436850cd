"""Recurrent layers: RNN, LSTM and GRU over sequences, and their cells for one step."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau.nn import init
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

# Each mode's op, and how many gates its weights hold below each other.
_OPS: dict[str, tuple[Any, int]] = {
    "LSTM": (_C.lstm, 4),
    "GRU": (_C.gru, 3),
    "RNN_TANH": (_C.rnn_tanh, 1),
    "RNN_RELU": (_C.rnn_relu, 1),
}


def _apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    return tensor.index_select(dim, permutation)


class RNNBase(Module):
    """What recurrent layers have in common: weights, states and the checks of both."""

    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if mode not in _OPS:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_options(dropout)
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for direction in range(2 if bidirectional else 1):
                self._all_weights.append(self._make_weights(layer, direction, device, dtype))
        self._flat_weights_names = [name for names in self._all_weights for name in names]
        self.reset_parameters()

    def _check_options(self, dropout: Any) -> None:
        if not isinstance(dropout, numbers.Number) or not 0 <= self.dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if self.dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={self.dropout} and "
                f"num_layers={self.num_layers}",
                stacklevel=4,
            )
        if not isinstance(self.hidden_size, int):
            raise TypeError(
                f"hidden_size should be of type int, got: {type(self.hidden_size).__name__}"
            )
        for name in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if self.proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections"
            )
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")

    def _make_weights(self, layer: int, direction: int, device: Any, dtype: Any) -> list[str]:
        """Registers the parameters of one direction of one layer; their names."""
        gates = _OPS[self.mode][1] * self.hidden_size
        state = self.proj_size or self.hidden_size
        width = self.input_size if layer == 0 else state * (2 if self.bidirectional else 1)
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (gates, width),
            "weight_hh": (gates, state),
        }
        if self.bias:
            shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
        if self.proj_size > 0:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        names = []
        for name, shape in shapes.items():
            names.append(f"{name}_l{layer}{'_reverse' if direction else ''}")
            self.register_parameter(
                names[-1], Parameter(flambeau.empty(shape, device=device, dtype=dtype))
            )
        return names

    @property
    def _flat_weights(self) -> list[Any]:
        """All weights in the order in which the op takes them: those of the module as they are now,
        or the list that was assigned, until a weight is replaced or the module is converted.
        """
        given = self.__dict__.get("_given_weights")
        if given is not None:
            return given
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights: list[Any]) -> None:
        self.__dict__["_given_weights"] = list(weights)

    def __setattr__(self, name: str, value: Any) -> None:
        given = self.__dict__.get("_given_weights")
        if given is not None and name in self._flat_weights_names:
            given[self._flat_weights_names.index(name)] = value
        super().__setattr__(name, value)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self.__dict__.pop("_given_weights", None)
        return super()._apply(fn, recurse)

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The weights of each direction of each layer."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Does nothing: the op takes weights wherever they lie in memory."""

    def reset_parameters(self) -> None:
        """Draws all weights uniformly from +- 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raises unless the input has the dtype and sizes that the weights want."""
        weight = self._flat_weights[0]
        # Under autocast the op's arguments are cast to one dtype.
        if input.dtype != weight.dtype and not _C.is_autocast_enabled(input.device.type):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: "
                f"model.to({input.dtype})"
            )
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. "
                f"Expected {self.input_size}, got {input.size(-1)}"
            )

    def _state_shape(
        self, input: Tensor, batch_sizes: Tensor | None, width: int
    ) -> tuple[int, int, int]:
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0 if self.batch_first else 1)
        return self.num_layers * (2 if self.bidirectional else 1), batch, width

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape that the hidden state must have."""
        return self._state_shape(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Raises unless a state has the expected shape."""
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The state with its sequences in another order."""
        return hx if permutation is None else _apply_permutation(hx, permutation)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0.0),
            ("bidirectional", False),
        ):
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text

    def _initial_state(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        shape = self.get_expected_hidden_size(input, batch_sizes)
        return flambeau.zeros(shape, dtype=input.dtype, device=input.device)

    def _check_state_rank(self, hx: Any, batched: bool) -> None:
        rank, what = (3, "batched 3-D") if batched else (2, "unbatched 2-D")
        if hx.dim() != rank:
            raise RuntimeError(
                f"For {what} input, hx should also be {rank}-D but got {hx.dim()}-D tensor"
            )

    @staticmethod
    def _of_state(hx: Any, change: Any) -> Any:
        """The state with a change made to each of its tensors."""
        return tuple(change(part) for part in hx) if isinstance(hx, tuple) else change(hx)

    def _packed_forward(self, packed: PackedSequence, hx: Any) -> Any:
        data, batch_sizes, sorted_indices, unsorted_indices = packed
        if hx is None:
            hx = self._initial_state(data, batch_sizes)
        else:
            hx = self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(data, hx, batch_sizes)
        output, *state = _OPS[self.mode][0](
            data, batch_sizes, hx, self._flat_weights, self.bias, self.num_layers, self.dropout,
            self.training, self.bidirectional,
        )  # fmt: skip
        hidden = tuple(state) if self.mode == "LSTM" else state[0]
        packed_output = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
        return packed_output, self.permute_hidden(hidden, unsorted_indices)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The outputs of all steps and the final state, for a batch, one sequence or a packed
        batch."""
        if isinstance(input, PackedSequence):
            return self._packed_forward(input, hx)
        if input.dim() not in (2, 3):
            name = "RNN" if self.mode.startswith("RNN") else self.mode
            kind = "D tensor instead" if name == "RNN" else "D instead"
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}{kind}")
        batched = input.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(batch_dim)
        if hx is None:
            hx = self._initial_state(input, None)
        else:
            self._check_state_rank(hx, batched)
            if not batched:
                hx = self._of_state(hx, lambda part: part.unsqueeze(1))
        self.check_forward_args(input, hx, None)
        output, *state = _OPS[self.mode][0](
            input, hx, self._flat_weights, self.bias, self.num_layers, self.dropout,
            self.training, self.bidirectional, self.batch_first,
        )  # fmt: skip
        hidden = tuple(state) if self.mode == "LSTM" else state[0]
        if not batched:
            output = output.squeeze(batch_dim)
            hidden = self._of_state(hidden, lambda part: part.squeeze(1))
        return output, hidden


def _refuse_projection(options: dict[str, Any]) -> None:
    if "proj_size" in options:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """Elman network: h_t = tanh(W_ih x_t + b_ih + W_hh h_{t-1} + b_hh), or relu of it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse_projection(kwargs)
        if len(args) > 3:
            self.nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            self.nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if self.nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{self.nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{self.nonlinearity.upper()}", *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory:

    i, f, o = sigmoid(W_i* x + W_h* h + b), g = tanh(W_ig x + W_hg h + b),
    c' = f * c + i * g, h' = o * tanh(c'), projected by W_hr where proj_size is given.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape that the cell state must have."""
        return self._state_shape(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        self.check_input(input, batch_sizes)
        self.check_hidden_size(
            hidden[0],
            self.get_expected_hidden_size(input, batch_sizes),
            "Expected hidden[0] size {}, got {}",
        )
        self.check_hidden_size(
            hidden[1],
            self.get_expected_cell_size(input, batch_sizes),
            "Expected hidden[1] size {}, got {}",
        )

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        if permutation is None:
            return hx
        return _apply_permutation(hx[0], permutation), _apply_permutation(hx[1], permutation)

    def _initial_state(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        shape = self.get_expected_cell_size(input, batch_sizes)
        cell = flambeau.zeros(shape, dtype=input.dtype, device=input.device)
        return super()._initial_state(input, batch_sizes), cell

    def _check_state_rank(self, hx: Any, batched: bool) -> None:
        rank, what = (3, "batched 3-D") if batched else (2, "unbatched 2-D")
        if hx[0].dim() != rank or hx[1].dim() != rank:
            raise RuntimeError(
                f"For {what} input, hx and cx should also be {rank}-D but got "
                f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )


class GRU(RNNBase):
    """Gated recurrent unit:

    r, z = sigmoid(W_i* x + W_h* h + b), n = tanh(W_in x + b_in + r * (W_hn h + b_hn)),
    h' = (1 - z) * n + z * h.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """What the cells have in common: weights of one step."""

    input_size: int
    hidden_size: int
    bias: bool
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        options = {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(flambeau.empty((rows, input_size), **options))
        self.weight_hh = Parameter(flambeau.empty((rows, hidden_size), **options))
        if bias:
            self.bias_ih = Parameter(flambeau.empty(rows, **options))
            self.bias_hh = Parameter(flambeau.empty(rows, **options))
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if not self.bias:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def reset_parameters(self) -> None:
        """Draws all weights uniformly from +- 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _check_ranks(self, input: Tensor, hx: Any) -> None:
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for place, part in enumerate(hx if isinstance(hx, tuple) else (hx,)):
            if part is not None and part.dim() not in (1, 2):
                which = f"hx[{place}]" if isinstance(hx, tuple) else "hidden"
                raise ValueError(
                    f"{name}: Expected {which} to be 1D or 2D, got {part.dim()}D instead"
                )

    def _check_state(self, input: Tensor, state: Tensor, which: int = 0) -> None:
        if input.size(1) != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {input.size(1)} expected {self.input_size}"
            )
        if state.dim() != 2:
            raise RuntimeError(
                f"Expected 2D hidden{which} (batch x hidden_size), but got {state.dim()}D tensor"
            )
        if input.size(0) != state.size(0):
            raise RuntimeError(
                f"Input batch size {input.size(0)} doesn't match hidden{which} batch size "
                f"{state.size(0)}"
            )
        if state.size(1) != self.hidden_size:
            raise RuntimeError(
                f"hidden{which} has inconsistent hidden_size: got {state.size(1)}, "
                f"expected {self.hidden_size}"
            )

    def _step(self, op: Any, input: Tensor, hx: Tensor | None) -> Tensor:
        """One step of a cell with one state, for a batch or a single sample."""
        self._check_ranks(input, hx)
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            hx = input.new_zeros((input.size(0), self.hidden_size))
        elif not batched:
            hx = hx.unsqueeze(0)
        self._check_state(input, hx)
        result = op(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return result if batched else result.squeeze(0)


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu of it."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        op = _C.rnn_tanh_cell if self.nonlinearity == "tanh" else _C.rnn_relu_cell
        return self._step(op, input, hx)


class LSTMCell(RNNCellBase):
    """One step of an LSTM; takes and returns the pair of hidden and cell state."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        self._check_ranks(input, hx)
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            zeros = input.new_zeros((input.size(0), self.hidden_size))
            hx = (zeros, zeros)
        elif not batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        for which, state in enumerate(hx):
            self._check_state(input, state, which)
        hidden, cell = _C.lstm_cell(
            input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
        return (hidden, cell) if batched else (hidden.squeeze(0), cell.squeeze(0))


class GRUCell(RNNCellBase):
    """One step of a GRU."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(_C.gru_cell, input, hx)
