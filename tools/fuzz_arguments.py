"""Random, hostile and boundary arguments for the calls of tools/fuzz.py."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

import flambeau as torch

DTYPES = """bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64
complex64 complex128""".split()
RARE_DTYPES = """complex32 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz
float8_e8m0fnu""".split()
SMALL = (0, 1, 2, 3, -1, -2, 4, 5, -3, 7)
EXTREME = (2**63 - 1, -(2**63), 2**62, 2**40, -(2**40), 65, 2**64, -(2**31) - 1)
REALS = (0.0, 1.0, 0.5, -1.0, 2.0, math.inf, -math.inf, math.nan, 1e-300, 1e300, -0.0, 2.0**63)
WORDS = """linear mean sum amax amin prod reflect replicate circular constant none same valid
fro nuc left right gels gelsd reduced complete r L U trunc floor lower higher nearest bilinear
area backward forward ortho ij xy ij,jk->ik i-> midpoint max tanh relu bicubic trilinear
nearest-exact ii->i ...i,i...->... gelsy gelss raw norm ZZ ∂ batchmean zeros border reflection
float32""".split()
NUMBERS: tuple[Any, ...] = (2**64, -(2**70), 10**400, np.float32(1.5), np.int8(-3), np.bool_(True))
NUMBERS += (np.uint64(2**64 - 1), np.complex64(1j), np.float64("nan"), np.array(2), np.ones(2), "1")
LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


SHARED: list[Any] = []  # tensors that several threads use at once, if they do


class Arguments:
    """Random arguments for the kinds that the registry names."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.last: tuple[Any, list[int]] | None = None  # dtype and sizes of a tensor of this call

    def make(self, kind: str) -> Any:
        if self.rng.random() < 0.02:
            return self.rng.choice([None, "?", object(), [], {}, 3, 2.5, 2**70, (), b"x", True])
        if kind.endswith("?"):
            if self.rng.random() < 0.4:
                return None
            kind = kind[:-1]
        maker = getattr(self, kind, None)
        return maker() if maker else None

    def sizes(self) -> list[int]:
        return [
            self.rng.choice((0, 1, 2, 3, 3, 4, 5))
            for _ in range(self.rng.choice((0, 1, 1, 2, 2, 3, 4)))
        ]

    def tensor(self) -> Any:
        rng = self.rng
        if rng.random() < 0.05:
            return None
        if SHARED and rng.random() < 0.6:
            return rng.choice(SHARED)
        dtype = getattr(torch, rng.choice(DTYPES if rng.random() < 0.5 else ["float32", "int64"]))
        if rng.random() < 0.05:
            dtype = getattr(torch, rng.choice(RARE_DTYPES))
        common = ([3, 4], [2, 3, 4], [5], [3, 3], [2, 3, 3], [2, 3, 4, 4])
        sizes = list(rng.choice(common)) if rng.random() < 0.5 else self.sizes()
        # Ops of several tensors want the same of each, or indices beside values.
        if self.last and rng.random() < 0.6:
            dtype = torch.int64 if rng.random() < 0.15 else self.last[0]
            sizes = self.last[1] if rng.random() < 0.8 else self.last[1][-1:]
        self.last = (dtype, sizes)
        device = "meta" if rng.random() < 0.04 else "cpu"
        x = torch.empty(sizes, dtype=dtype, device=device)
        if device == "cpu":
            self.fill(x, sizes)
        x = self.laid_out(x)
        if rng.random() < 0.05:
            return self.unlike(x)
        if rng.random() < 0.2 and (dtype.is_floating_point or dtype.is_complex):
            x = x.detach().requires_grad_()
        return x

    def fill(self, x: Any, sizes: list[int]) -> None:
        rng = self.rng
        whole = rng.random() < 0.5
        x.copy_(torch.randint(-3, 6, sizes).to(x.dtype) if whole else torch.randn(sizes))
        if rng.random() >= 0.1 or not x.numel():
            return
        if x.dtype is torch.bool:  # what others may have written
            x.view(torch.uint8).random_(0, 256)
        if x.is_floating_point() and x.itemsize > 1:
            x.view(-1)[0] = rng.choice((math.inf, -math.inf, math.nan, -0.0, 1e-30))
        elif x.dtype is torch.int64:  # indices and lengths that lie far outside
            x.view(-1)[0] = rng.choice((2**63 - 1, -(2**63), 2**62, 2**32, -(2**31) - 1))

    def laid_out(self, x: Any) -> Any:
        way = self.rng.random()
        if way < 0.2 and x.dim() > 1:
            return x.transpose(0, -1)
        if way < 0.3 and x.dim() > 0 and x.size(0) > 1:
            return x[::2]
        if way < 0.4 and x.dim() > 0:
            return x[:1].expand(x.shape) if x.size(0) else x
        if way < 0.43 and x.numel() > 3 and not x.is_meta:  # elements that overlap
            return x.as_strided((x.numel() // 2, 2), (1, 1))
        if way < 0.45 and x.dim() > 0 and x.numel() and not x.is_meta:
            return self.misaligned(x)
        return x

    def misaligned(self, x: Any) -> Any:
        """The same in memory that begins somewhere between elements."""
        memory = bytearray(x.numel() * x.itemsize + 16)
        y = torch.frombuffer(memory, dtype=x.dtype, count=x.numel(), offset=self.rng.randint(1, 15))
        return y.copy_(x.reshape(-1).detach()).view(x.shape)

    def unlike(self, x: Any) -> Any:
        """A tensor that most ops cannot take as it is: sparse, or with a sign still pending."""
        if self.rng.random() < 0.3:
            return self.unsound(x)
        if x.is_meta or x.is_complex() or self.rng.random() < 0.3:
            return x.conj() if x.is_complex() else torch._C._neg_view(x) if x.is_signed() else x
        if x.dtype.itemsize == 1 and x.is_floating_point():
            return x
        if x.dim() >= 2 and self.rng.random() < 0.5:
            to = (x.to_sparse_csr, x.to_sparse_csc)
            return self.rng.choice(to)() if x.dim() == 2 else x.to_sparse(x.dim() - 1)
        return x.to_sparse()

    def unsound(self, x: Any) -> Any:
        """A sparse tensor whose indices need not lie within it, if such a one can be made."""
        n, columns = self.rng.randint(0, 4), self.rng.randint(0, 4)
        values = torch.randn([n, *x.shape[2:]]).to(x.dtype)
        near = torch.randint(-1, 6, (2, n))
        if n and self.rng.random() < 0.2:
            near[0, 0] = self.rng.choice(EXTREME[:5])
        check = self.rng.choice((None, False, True))
        try:
            if self.rng.random() < 0.5:
                return torch.sparse_coo_tensor(near, values, check_invariants=check)
            starts = torch.randint(-1, n + 2, (columns + 1,))
            if self.rng.random() < 0.5:
                starts = starts.clamp(0, n).sort()[0]
                starts[0], starts[-1] = 0, n
            make = self.rng.choice((torch.sparse_csr_tensor, torch.sparse_csc_tensor))
            return make(starts, near[0], values.reshape(n, -1)[:, 0], check_invariants=check)
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
            return x

    def tensors(self) -> Any:
        return [self.tensor() for _ in range(self.rng.choice((0, 1, 2, 3)))]

    def operand(self) -> Any:
        return self.tensor() if self.rng.random() < 0.6 else self.scalar()

    def scalar(self) -> Any:
        number = (self.integer, self.real, self.boolean, lambda: complex(self.real(), 1.0))
        if self.rng.random() < 0.05:
            return self.rng.choice(NUMBERS)
        return self.rng.choice(number)()

    def integer(self) -> int:
        return self.rng.choice(SMALL if self.rng.random() < 0.93 else EXTREME)

    def real(self) -> float:
        return self.rng.choice(REALS)

    def boolean(self) -> bool:
        return self.rng.random() < 0.5

    def ints(self) -> Any:
        if self.rng.random() < 0.3:
            return self.integer()
        return [self.integer() for _ in range(self.rng.choice((0, 1, 1, 2, 2, 3, 4)))]

    def reals(self) -> Any:
        return [self.real() for _ in range(self.rng.choice((0, 1, 2, 3)))]

    def dtype(self) -> Any:
        names = DTYPES if self.rng.random() < 0.95 else RARE_DTYPES
        return getattr(torch, self.rng.choice(names)) if self.rng.random() < 0.7 else None

    def device(self) -> Any:
        return self.rng.choice((None, "cpu", "meta", "cpu:0"))

    def string(self) -> Any:
        return self.rng.choice(WORDS)

    def generator(self) -> Any:
        found = torch.Generator().manual_seed(self.rng.choice((0, 2**64 - 1, -1, 2**31)))
        if self.rng.random() < 0.3:  # anywhere between its words
            torch.rand(self.rng.randrange(700), generator=found)
        return found

    def memory_format(self) -> Any:
        return self.rng.choice(
            (
                torch.contiguous_format,
                torch.preserve_format,
                torch.channels_last,
                torch.channels_last_3d,
            )
        )

    def layout(self) -> Any:
        return getattr(torch, self.rng.choice(LAYOUTS))

    def options(self) -> dict[str, Any]:
        """The keywords of functions that make tensors."""
        found: dict[str, Any] = {}
        if self.rng.random() < 0.3:
            found["dtype"] = self.make("dtype")
        if self.rng.random() < 0.1:
            found["device"] = self.make("device")
        if self.rng.random() < 0.05:
            found["layout"] = self.make("layout")
        if self.rng.random() < 0.1:
            found["requires_grad"] = self.boolean()
        return found

    def anything(self) -> Any:
        kinds = "tensor tensor operand ints integer real boolean string tensors dtype reals"
        return self.make(self.rng.choice(kinds.split()))


class Changed(Arguments):
    """Arguments that differ from given ones."""

    def changed(self, value: Any) -> Any:
        if self.rng.random() < 0.05:
            return self.make("operand")
        if isinstance(value, torch.Tensor):
            return self.changed_tensor(value)
        if isinstance(value, (list, tuple)):
            return self.changed_list(list(value))
        kinds = {bool: "boolean", int: "integer", float: "real", str: "string"}
        return self.make(kinds.get(type(value), "scalar"))

    def changed_tensor(self, x: Any) -> Any:
        way = self.rng.random()
        if way < 0.4:
            return x.to(getattr(torch, self.rng.choice(DTYPES)))
        if way < 0.5 or x.dim() == 0:
            return x.unsqueeze(self.rng.randint(0, x.dim()))
        dim = self.rng.randrange(x.dim())
        if way < 0.6:
            return x.narrow(dim, 0, self.rng.randint(0, x.size(dim)))
        if way < 0.7:
            return torch.cat([x, x], dim)
        if way < 0.75 and x.size(dim):
            return x.select(dim, 0)
        if way < 0.8:
            return x.transpose(dim, -1)
        if way < 0.84 and x.dtype is torch.int64 and x.numel():
            y = x.clone()
            y.view(-1)[-1] = self.rng.choice(EXTREME[:5] + SMALL)
            return y
        if way < 0.87:
            return self.unlike(x)
        if way < 0.89:
            return x.to("meta")
        return self.laid_out(x) if way < 0.94 else self.make("tensor")

    def changed_list(self, items: list[Any]) -> Any:
        way = self.rng.random()
        if items and way < 0.7:
            place = self.rng.randrange(len(items))
            items[place] = self.changed(items[place])
        elif items and way < 0.85:
            items.pop()
        else:
            items.append(self.integer())
        return items
