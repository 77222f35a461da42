"""Where this user's files lie that can be made again."""

import os
from pathlib import Path

from decoding.errors import ModelUnavailable


def user_cache() -> Path:
    """`canopy` below CANOPY_CACHE, else XDG_CACHE_HOME, else ~/.cache; raises ModelUnavailable without a home."""
    base = os.environ.get("CANOPY_CACHE") or os.environ.get("XDG_CACHE_HOME")
    try:
        parent = Path(base).expanduser() if base else Path.home() / ".cache"
    except RuntimeError:
        raise ModelUnavailable(
            "This user has no home folder to keep a cache in.", "Set CANOPY_CACHE to a folder that can be written."
        ) from None
    return parent.absolute() / "canopy"
