"""The drafters that come with Canopy, in `decoding/weights/`.

Every file is checked against its sha256 before it is read; the sums stand beside the files as
`sha256sum -c SHA256SUMS` reads them.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from decoding.errors import ModelUnavailable
from decoding.files import write_atomically

WEIGHTS = Path(__file__).parent / "weights"
SUMS = "SHA256SUMS"
MATRIX = "matrix"
"""The kind of a transition matrix: no drafter by itself, but what `transition-matrix` begins with."""


@dataclass(frozen=True)
class Shipped:
    """A drafter of our own."""

    id: str
    """Its name, and that of its folder."""
    title: str
    kind: str
    """What it is, as `model_config` names kinds, or `MATRIX`."""
    target: str
    """The preset that it drafts for."""
    help: str

    @property
    def folder(self) -> Path:
        return WEIGHTS / self.id


SHIPPED: tuple[Shipped, ...] = (
    Shipped(
        "smollm2-135m-dflash",
        "SmolLM2 block diffusion",
        "block-diffusion",
        "smollm2-135m",
        "block-diffusion drafter in the DFlash format, trained here",
    ),
    Shipped(
        "smollm2-135m-eagle3",
        "SmolLM2 EAGLE-3",
        "eagle3",
        "smollm2-135m",
        "EAGLE-3 drafter in the published format, trained here",
    ),
    Shipped(
        "smollm2-135m-llama",
        "SmolLM2 small Llama",
        "causal-lm",
        "smollm2-135m",
        "four small Llama layers, distilled from the target here",
    ),
    Shipped(
        "smollm2-135m-matrix",
        "SmolLM2 warmed matrix",
        MATRIX,
        "smollm2-135m",
        "transition matrix (Token Recycling) that has read text of the target",
    ),
)


def find_shipped(drafter_id: str) -> Shipped | None:
    """The shipped drafter of this name, if there is one."""
    return next((shipped for shipped in SHIPPED if drafter_id == shipped.id), None)


def checked_folder(shipped: Shipped) -> Path:
    """Its folder, every file compared with its sum; raises ModelUnavailable naming the file that is not as shipped."""
    folder = shipped.folder
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
        wanted = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    except (OSError, ValueError):
        raise _damaged(shipped, SUMS) from None
    for name in sorted(wanted.keys() | {path.name for path in _summed(folder)}) or [SUMS]:
        try:
            found = _digest(folder / name)
        except OSError:
            found = ""
        if found != wanted.get(name):
            raise _damaged(shipped, name)
    return folder


def write_sums(folder: Path) -> None:
    """Writes the sums of all files in `folder`, the model card left out: it may be edited."""
    write_atomically(folder / SUMS, "".join(f"{_digest(path)}  {path.name}\n" for path in _summed(folder)))


def _summed(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in (".json", ".safetensors"))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _damaged(shipped: Shipped, name: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"The drafter {shipped.id} is damaged: {name} in decoding/weights/{shipped.id} is "
        f"{'not what was shipped' if (shipped.folder / name).exists() else 'missing'}.",
        f"Restore it: git checkout -- decoding/weights/{shipped.id}, or fetch the repository again.",
    )
