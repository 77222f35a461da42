"""The official DFlash implementation (PyPI `dflash`, MIT), fetched at test time and imported as a module.

Its own requirements are pinned exactly, so it is installed alone; only its model module is imported, which needs
nothing but torch and transformers. The wheel is checked against its sha256 before anything of it runs.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

VERSION = "0.1.0"
SHA256 = "b3fe38d9413efc30a952c8b38b34f1dcc696ba6d7b865acbf540a34cc53afaa2"
UNREACHABLE = ("from versions: none", "connection broken", "Connection refused", "Network is unreachable")


def official_model(cache: Path) -> ModuleType:
    """The module `dflash.model`, from `cache` or installed there once.

    Skips the test when the package index cannot be reached, and fails it then where CI=true.
    """
    home = cache / f"dflash-{VERSION}"
    if not home.exists():
        _install(cache, home)
    spec = importlib.util.spec_from_file_location("official_dflash_model", home / "dflash" / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _install(cache: Path, home: Path) -> None:
    wanted = cache / "requirement.txt"
    wanted.write_text(f"dflash=={VERSION} --hash=sha256:{SHA256}\n")
    fresh = cache / f"installing-{os.getpid()}"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--disable-pip-version-check",
    ]
    done = subprocess.run(
        [*command, "--retries", "1", "--timeout", "20", "--target", str(fresh), "-r", str(wanted)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        fresh.rename(home)  # whole or not at all
        return
    said = done.stdout + done.stderr
    if os.environ.get("CI") != "true" and any(sign in said for sign in UNREACHABLE):
        pytest.skip(
            f"the package index cannot be reached, so the official dflash {VERSION} is not there to compare with"
        )
    pytest.fail(f"the official dflash {VERSION} could not be installed:\n{said}")
