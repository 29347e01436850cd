"""How long processes wait for one another unless told otherwise."""

from __future__ import annotations

import datetime

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]

default_pg_timeout = datetime.timedelta(minutes=30)
default_pg_nccl_timeout = datetime.timedelta(minutes=10)
