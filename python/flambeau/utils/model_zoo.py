"""State dicts from addresses, under the name that hub's function had before."""

from __future__ import annotations

from flambeau.hub import load_state_dict_from_url as load_url
from flambeau.hub import tqdm

__all__ = ["load_url", "tqdm"]
