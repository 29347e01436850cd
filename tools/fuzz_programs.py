"""Short programs for tools/fuzz.py: tensors that share storages are indexed, written, viewed,
moved to other memory and handed to other libraries and back, then read.
"""

from __future__ import annotations

import array
import contextlib
import copy
import ctypes
import io
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from fuzz_arguments import DTYPES, EXTREME, SMALL, Arguments
from fuzz_calls import EXPECTED, Call

import flambeau as torch

MOST = 1 << 16  # elements of a tensor that a program keeps
REFUSALS = (*EXPECTED, AttributeError, KeyError, pickle.PickleError, RecursionError, EOFError)
BINARY = "add_ sub_ mul_ div_ copy_ copysign_ atan2_ lerp_ fmod_ pow_ logical_and_".split()
UNARY = (
    "neg_ abs_ zero_ sigmoid_ conj_physical_ logical_not_ cumsum_ t_ detach_ resolve_conj".split()
)
READS = "tolist sum clone item __repr__ contiguous nonzero unique sort bool any numpy".split()


class Program:
    """Steps over a pool of tensors; `show` is told of each before it runs."""

    def __init__(self, rng: random.Random, show: Callable[[str], None]) -> None:
        self.rng = rng
        self.show = show
        self.make = Arguments(rng)
        self.pool: list[Any] = []
        self.kept: list[Any] = []  # other libraries' views of the same memory

    def run(self) -> Any:
        for _ in range(self.rng.randint(1, 3)):
            self.keep(self.make.tensor())
        steps = [name for name in dir(self) if name.startswith("step_")]
        for _ in range(self.rng.randint(2, 10)):
            name = self.rng.choice(steps)
            self.show(f"{name} of {[(str(x.dtype), tuple(x.shape)) for x in self.pool]}")
            with contextlib.suppress(*REFUSALS):
                self.keep(getattr(self, name)())
        self.read()
        return None

    def keep(self, x: Any) -> None:
        if isinstance(x, torch.Tensor) and x.layout is torch.strided and x.numel() <= MOST:
            self.pool = [*self.pool[-4:], x]

    def any(self) -> Any:
        self.pool = [x for x in self.pool if x.numel() <= MOST]  # it may have been resized
        return self.rng.choice(self.pool) if self.pool else self.make.tensor()

    def ints(self, count: int) -> list[int]:
        return [
            self.rng.choice(EXTREME if self.rng.random() < 0.06 else SMALL) for _ in range(count)
        ]

    def read(self) -> None:
        """Touches every element that is still reachable."""
        for x in self.pool:
            if x.numel() > MOST:
                continue
            for name in self.rng.sample(READS, 2):
                self.show(f"read {name}")
                with contextlib.suppress(*REFUSALS):
                    getattr(x, name)()

    def index(self, deep: bool = True) -> Any:
        rng = self.rng
        way = rng.randrange(11 if deep else 9)
        number = self.ints(1)[0]
        if way < 2:
            return number
        if way < 4:
            step = rng.choice((None, 1, 2, 3, 2**62, -1, 0))
            return slice(rng.choice((None, number)), rng.choice((None, *self.ints(1))), step)
        if way == 4:
            return rng.choice((None, ..., True, False, np.int64(number), np.bool_(True)))
        if way == 5:
            return self.make.tensor()
        if way == 6:
            return torch.tensor(self.ints(rng.randint(0, 4))[:4]) % rng.choice((3, 2**62))
        if way == 7:
            return self.ints(rng.randint(0, 3))
        if way == 8:
            return rng.choice((1.5, "a", object(), [[0, 1], [1]], [True, None], np.array([0, 1])))
        return tuple(self.index(deep=False) for _ in range(rng.randint(0, 5)))

    def step_read_index(self) -> Any:
        return self.any()[self.index()]

    def step_write_index(self) -> None:
        x, value = self.any(), self.any() if self.rng.random() < 0.5 else self.make.scalar()
        index = self.index()
        x[index] = value

    def step_delete_index(self) -> None:
        del self.any()[self.index()]

    def step_binary(self) -> Any:
        x, y = self.any(), self.any()
        return getattr(x, self.rng.choice(BINARY))(y)

    def step_unary(self) -> Any:
        return getattr(self.any(), self.rng.choice(UNARY))()

    def step_out(self) -> None:
        x, y = self.any(), self.any()
        out = self.any()
        name = self.rng.choice("add mul cat cumsum matmul index_select neg exp sum clamp".split())
        if name == "cat":
            torch.cat([x, y, out], 0, out=out)
        elif name in ("cumsum", "sum"):
            getattr(torch, name)(x, 0, out=out)
        elif name == "index_select":
            torch.index_select(x, 0, y, out=out)
        elif name in ("neg", "exp"):
            getattr(torch, name)(x, out=out)
        else:
            getattr(torch, name)(x, y, out=out)

    def step_scatter(self) -> Any:
        x, index, dim = self.any(), self.any(), self.ints(1)[0]
        ways: list[Callable[[], Any]] = [
            lambda: x.scatter_(dim, index, self.any()),
            lambda: x.scatter_add_(dim, index, self.any()),
            lambda: x.index_add_(dim, index, self.any()),
            lambda: x.index_copy_(dim, index, self.any()),
            lambda: x.index_fill_(dim, index, 1),
            lambda: x.masked_fill_(index > 0, 1),
            lambda: x.masked_scatter_(index > 0, self.any()),
            lambda: x.put_(index, self.any(), self.rng.random() < 0.5),
            lambda: x.gather(dim, index),
            lambda: x.take(index),
            lambda: x.scatter_reduce_(dim, index, self.any(), "amax"),
            lambda: x.index_put_((index, None, self.any()), self.any(), True),
            lambda: torch.embedding(x, index),
            lambda: torch.bincount(x, index),
        ]
        return self.rng.choice(ways)()

    def step_view(self) -> Any:
        x, a, b, c = self.any(), *self.ints(3)
        ways: list[Callable[[], Any]] = [
            lambda: x.transpose(a, b),
            lambda: x.narrow(a, b, c),
            lambda: x.select(a, b),
            lambda: x.unfold(a, b, c),
            lambda: x.diagonal(a, b, c),
            lambda: x.expand(self.ints(self.rng.randint(0, 5))),
            lambda: x.view(self.ints(self.rng.randint(0, 4))),
            lambda: x.view(getattr(torch, self.rng.choice(DTYPES))),
            lambda: x.reshape(-1),
            lambda: x.conj() if x.is_complex() else torch._C._neg_view(x),
            lambda: torch.view_as_real(x) if x.is_complex() else torch.view_as_complex(x),
            lambda: x.imag,
            lambda: x.T,
            lambda: x.squeeze().unsqueeze(a),
            lambda: x.permute(self.ints(x.dim())),
            lambda: self.rng.choice(x.split(a, b)),
            lambda: self.rng.choice(torch.broadcast_tensors(x, self.any())),
            lambda: x.to("meta"),
            lambda: x.movedim(a, b),
            lambda: x.unflatten(a, self.ints(2)),
        ]
        return self.rng.choice(ways)()

    def step_strided(self) -> Any:
        x, dims = self.any(), self.rng.randint(0, 3)
        size, stride, offset = self.ints(dims), self.ints(dims), self.ints(1)[0]
        ways: list[Callable[[], Any]] = [
            lambda: x.as_strided(size, stride, offset),
            lambda: x.as_strided_(size, stride, offset),
            lambda: x.set_(self.any().untyped_storage(), offset, size, stride),
            lambda: x.set_(self.any()),
            lambda: x.set_(self.any().storage(), offset, size),
            lambda: x.set_(),
            lambda: x.resize_(size),
            lambda: x.resize_as_(self.any()),
            lambda: torch.as_strided_scatter(x, self.any(), size, stride, offset),
            lambda: torch.empty_strided(size, stride, dtype=x.dtype),
            lambda: x.new_empty_strided(size, stride),
        ]
        return self.rng.choice(ways)()

    def step_storage(self) -> Any:
        x, n = self.any(), self.ints(1)[0]
        storage = x.untyped_storage()
        ways: list[Callable[[], Any]] = [
            lambda: storage.resize_(n),
            lambda: storage.resize_(n * 8),
            lambda: storage[n],
            lambda: storage.__setitem__(n, 1),
            lambda: storage[n : n + 3],
            lambda: storage.fill_(n),
            lambda: storage.clone(),
            lambda: storage.copy_(self.any().untyped_storage()),
            lambda: storage.tolist(),
            lambda: setattr(x, "data", self.any()),
            lambda: setattr(x, "grad", self.any()),
            lambda: setattr(x, "requires_grad", True),
            lambda: x.storage()[n],
            lambda: torch.UntypedStorage(n),
        ]
        return self.rng.choice(ways)()

    def step_numpy(self) -> Any:
        rng, x = self.rng, self.any()
        a: Any = (
            x.numpy() if rng.random() < 0.5 else x.detach().resolve_conj().resolve_neg().numpy()
        )
        self.kept.append(a)
        ways: list[Callable[[], Any]] = [
            lambda: a,
            lambda: a[::-1],
            lambda: np.broadcast_to(a, (2, *a.shape)),
            lambda: a.astype(rng.choice((">i4", ">f8", "O", "U3", "M8[s]", "V5", "f2", "?", "g"))),
            lambda: a.T,
            lambda: np.zeros(3, [("a", "i1"), ("b", "f8")])["b"],
            lambda: a[..., ::2],
            lambda: np.frombuffer(b"0123456789abcdef", rng.choice(("i1", "f4", "i8")))[1:],
            lambda: np.ma.masked_array(a),
            lambda: np.frombuffer(bytearray(41), "u1", offset=1)[:40].view(
                rng.choice(("f4", "i8"))
            ),
            lambda: np.frombuffer(bytearray(range(41)), rng.choice(("?", "c8", "f2")), 2, 3),
            lambda: np.matrix(a) if a.ndim == 2 else np.array(a, ndmin=3),
        ]
        given = rng.choice(ways)()
        maker = (torch.from_numpy, torch.as_tensor, torch.tensor, torch.asarray, torch.from_dlpack)
        return rng.choice(maker)(given)

    def step_buffer(self) -> Any:
        rng, n, m = self.rng, *self.ints(2)
        sources: list[Callable[[], Any]] = [
            lambda: bytearray(rng.randrange(40)),
            lambda: b"0123456789abcdef",
            lambda: array.array(rng.choice("bBhHiIlLqQfd"), [1, 2, 3]),
            lambda: memoryview(bytearray(24))[:: rng.choice((1, 2, -1))],
            lambda: (ctypes.c_int * 5)(1, 2),
            lambda: memoryview(bytearray(24)).cast("f", (2, 3)),
            lambda: io.BytesIO(b"abcdefgh").getbuffer(),
        ]
        source = rng.choice(sources)()
        dtype = getattr(torch, rng.choice(DTYPES))
        ways: list[Callable[[], Any]] = [
            lambda: torch.frombuffer(source, dtype=dtype, count=n, offset=m),
            lambda: torch.frombuffer(source, dtype=dtype),
            lambda: torch.asarray(source, dtype=dtype),
            lambda: torch.asarray(source, dtype=dtype, copy=rng.choice((None, True, False))),
            lambda: torch.tensor(source),
            lambda: torch.UntypedStorage(source),
        ]
        return rng.choice(ways)()

    def step_dlpack(self) -> Any:
        x = self.any()
        way = self.rng.randrange(5)
        if way == 0:
            return torch.from_dlpack(x)
        if way == 1:
            return torch.from_dlpack(torch.to_dlpack(x))
        if way == 2:
            capsule = x.__dlpack__()
            torch.from_dlpack(capsule)
            return torch.from_dlpack(capsule)  # a capsule is taken once
        if way == 3:
            self.kept.append(np.from_dlpack(x))
            return torch.from_dlpack(self.kept[-1])
        return x.__dlpack__(stream=self.ints(1)[0]) and None

    def step_lists(self) -> Any:
        def nested(depth: int) -> Any:
            if depth == 0 or self.rng.random() < 0.2:
                return self.make.scalar() if self.rng.random() < 0.8 else self.any()
            return [nested(depth - 1) for _ in range(self.rng.choice((0, 1, 2, 2, 3)))]

        return torch.tensor(nested(self.rng.randint(0, 4)), dtype=self.make.make("dtype?"))

    def step_copy(self) -> Any:
        x = self.any()
        way = self.rng.randrange(4)
        if way == 0:
            return copy.deepcopy(x)
        if way == 1:
            return pickle.loads(pickle.dumps(x))
        if way == 2:
            file = io.BytesIO()
            torch.save(x, file)
            file.seek(0)
            return torch.load(file)
        return copy.copy(x)

    def step_odd_bytes(self) -> Any:
        """States and files of which some bytes are others."""
        rng = self.rng
        way = rng.randrange(4)
        if way == 0:
            generator = torch.Generator()
            generator.set_state(self.damaged(generator.get_state()))
            return torch.randn(rng.randrange(40), generator=generator)
        if way == 1:
            state = torch.get_rng_state()
            try:
                torch.set_rng_state(self.damaged(state))
                return torch.rand(rng.randrange(40)) + torch.randn(1)
            finally:
                torch.set_rng_state(state)
        if way == 2:
            torch.Generator().set_state(self.any())
            return None
        file = io.BytesIO()
        torch.save(self.any(), file, _use_new_zipfile_serialization=rng.random() < 0.5)
        data = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)
        return torch.load(io.BytesIO(bytes(self.damaged(data).tolist())), weights_only=True)

    def damaged(self, data: Any) -> Any:
        rng, data = self.rng, data.clone()
        for _ in range(rng.choice((0, 1, 1, 3))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.2:
            data = data[: rng.randrange(len(data))]
        return torch.cat([data, data[:8]]) if rng.random() < 0.05 else data

    def step_grad(self) -> Any:
        x = self.any().detach().clone().requires_grad_()
        y = x * 1
        y[self.index()] = self.any()
        z = y[self.index()]
        z.backward(torch.ones_like(z) if self.rng.random() < 0.8 else self.any())
        return x.grad


def program(rng: random.Random, show: Callable[[str], None]) -> Call:
    return Call("program", Program(rng, show).run)
