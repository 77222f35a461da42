"""Which code made a run: library versions and the git commit."""

import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@cache
def library_versions() -> dict[str, str]:
    """Versions of the libraries that can change a result."""
    found = {}
    for name in ("torch", "transformers", "numpy", "numba"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


@cache
def git_commit() -> str:
    """The commit of this checkout, with `-dirty` where files differ; empty outside a checkout."""
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.stdout.strip()
