"""The older home of what `flambeau.library` holds."""

from __future__ import annotations

from flambeau.library import custom_op, get_ctx, impl, impl_abstract

__all__ = ["custom_op", "get_ctx", "impl", "impl_abstract"]
