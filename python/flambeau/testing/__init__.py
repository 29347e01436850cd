"""Helpers for tests of programs that use tensors: comparing values and making inputs."""

from flambeau.testing._comparison import assert_allclose, assert_close
from flambeau.testing._creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
