"""A manifest beside a folder's files says what they were, so that damage is noticed before it is loaded.

Reading 540 MB at every start to check it would cost 1.5 s (sha256, measured on two cores). So, as git does with its
index: a file whose size and time of change are those of its last full check is taken as sound, any other is read in
full. Small files are read every time.
"""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from decoding.files import write_atomically

NAME = "manifest.json"
SMALL_BYTES = 16_000_000


def write(folder: Path, about: dict[str, str]) -> None:
    """Writes the manifest of all files in `folder` as they are now."""
    _store(folder, {**about, "files": {path.name: _entry(path) for path in sorted(folder.iterdir())}})


def problem(folder: Path, thorough: bool = False) -> str | None:
    """What is wrong with `folder`, in a few words; None where its files are what the manifest says.

    A file that was touched but is still whole has its new time noted, where the folder can be written.
    """
    try:
        stored = json.loads((folder / NAME).read_text("utf-8"))
        files: dict[str, dict[str, Any]] = dict(stored["files"])
        touched = False
        if not files:
            return f"{NAME} names no file"
        for name, was in files.items():
            status = (folder / name).stat()
            if status.st_size != was["size"]:
                return f"{name} has {status.st_size:,} bytes, not {was['size']:,}"
            same_time = status.st_mtime_ns == was["mtime_ns"]
            if thorough or not same_time or status.st_size <= SMALL_BYTES:
                if _digest(folder / name) != was["sha256"]:
                    return f"{name} has changed"
                touched = touched or not same_time
                was["mtime_ns"] = status.st_mtime_ns
        if touched:
            with suppress(OSError):  # a read-only cache is read in full each time
                _store(folder, stored)
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{NAME} cannot be read"
    return None


def sync(folder: Path) -> None:
    """Waits until the files of `folder` and their names are on the disk."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Waits until the names in `folder` are on the disk, where the system can do that."""
    with suppress(OSError):  # not every file system opens a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _entry(path: Path) -> dict[str, Any]:
    status = path.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": _digest(path)}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _store(folder: Path, content: dict[str, Any]) -> None:
    """Replaces the manifest in one step, so that a reader finds the old or the new one."""
    write_atomically(folder / NAME, json.dumps(content, indent=1))
