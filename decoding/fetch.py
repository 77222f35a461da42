"""Brings a checkpoint from the Hub into the Hub's cache, telling how far it has come."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from decoding.hub import FILES, told_plainly
from decoding.presets import find_preset
from decoding.weight_files import PATTERNS, SLICES, cached_snapshot

Report = Callable[[str], None]
EVERY_SECONDS = 0.5


def fetch_checkpoint(model_id: str, report: Report) -> None:
    """Fetches config, tokenizer and safetensors of a Hub id or preset, unless the cache has them all.

    Nothing happens for what lies on this machine. What `report` raises ends it; files that are complete stay in the
    cache, so that a second try goes on from there.
    """
    preset = find_preset(model_id)
    hub_id = preset.source if preset is not None else model_id
    if "/" not in hub_id or Path(hub_id).expanduser().is_dir() or cached_snapshot(hub_id) is not None:
        return
    from huggingface_hub import snapshot_download

    report(f"Fetching {hub_id} from the Hub.")
    with told_plainly(hub_id, FILES):
        # One after another: an interruption then reaches this thread, and a slow line has one bar.
        snapshot_download(
            hub_id,
            allow_patterns=list(PATTERNS),
            ignore_patterns=list(SLICES),
            max_workers=1,
            tqdm_class=_bars(hub_id, report),
        )


def _bars(hub_id: str, report: Report) -> Any:
    """A progress bar of tqdm's kind that is written into sentences."""
    from tqdm.auto import tqdm

    class Told(tqdm):  # type: ignore[misc]
        said = 0.0

        def update(self, n: float | None = 1) -> bool | None:
            self.n += n or 0
            now = time.monotonic()
            if self.unit == "B" and self.total and now - Told.said >= EVERY_SECONDS:
                Told.said = now
                done, whole = (f"{size / 1e6:,.0f}" for size in (self.n, self.total))
                report(f"Fetching {hub_id}: {done} of {whole} MB.")
            return None

        def display(self, *_: object, **__: object) -> bool:
            return False

    return Told
