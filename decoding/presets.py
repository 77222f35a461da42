"""The targets that Canopy knows by a short name. Any other Hub id (owner/name) or local folder works too.

No torch here: `python -m decoding list` prints this table at once.
"""

from dataclasses import dataclass
from pathlib import Path

from decoding.errors import BadRequest, UnknownName

EMBEDDED = "embedded"


@dataclass(frozen=True)
class Preset:
    """A target, as the command line and the page offer it."""

    id: str
    """Short name, for `--target`."""
    title: str
    source: str
    """Hub id, or `embedded` for the model that needs no hub."""
    parameters: float
    """Billions."""
    licence: str
    dtype_note: str
    """Where it runs well, and in which dtype."""
    drafters: tuple[str, ...] = ()
    """Published drafters made for this target (Hub ids); the shipped ones are listed with the drafters."""
    drafter_parameters: float = 0.0
    """Billions in the largest of these, by the shapes of its layers, its own embedding counted."""
    non_thinking: tuple[str, ...] = ()
    """Those of its drafters that were trained on text without thinking: thinking collapses their acceptance."""


PRESETS: tuple[Preset, ...] = (
    Preset(
        id="smollm2-135m",
        title="SmolLM2-135M-Instruct",
        source=EMBEDDED,
        parameters=0.135,
        licence="Apache-2.0",
        dtype_note="float32 on a CPU: exact, 0.6 GB",
    ),
    Preset(
        id="qwen3-4b",
        title="Qwen3-4B",
        source="Qwen/Qwen3-4B",
        parameters=4.0,
        licence="Apache-2.0",
        dtype_note="bfloat16 on a GPU, 8 GB",
        drafters=("z-lab/Qwen3-4B-DFlash-b16", "AngelSlim/Qwen3-4B_eagle3"),
        drafter_parameters=0.7,
        non_thinking=("z-lab/Qwen3-4B-DFlash-b16",),
    ),
    Preset(
        id="qwen3-8b",
        title="Qwen3-8B",
        source="Qwen/Qwen3-8B",
        parameters=8.2,
        licence="Apache-2.0",
        dtype_note="bfloat16 on a GPU, 17 GB",
        drafters=("z-lab/Qwen3-8B-DFlash-b16", "RedHatAI/Qwen3-8B-speculator.eagle3"),
        drafter_parameters=1.1,
        non_thinking=("z-lab/Qwen3-8B-DFlash-b16",),
    ),
    Preset(
        id="qwen3-coder-30b-a3b",
        title="Qwen3-Coder-30B-A3B-Instruct",
        source="Qwen/Qwen3-Coder-30B-A3B-Instruct",
        parameters=30.5,
        licence="Apache-2.0",
        dtype_note="bfloat16 on a GPU, 61 GB (3.3 B parameters at work per token)",
        drafters=(
            "z-lab/Qwen3-Coder-30B-A3B-DFlash",
            "lmsys/SGLang-EAGLE3-Qwen3-Coder-30B-A3B-Instruct-SpecForge",
        ),
        drafter_parameters=0.6,
    ),
    Preset(
        id="pythia-2.8b",
        title="Pythia-2.8B",
        source="EleutherAI/pythia-2.8b",
        parameters=2.8,
        licence="Apache-2.0",
        dtype_note="float16 or bfloat16 on a GPU, 6 GB; a base model without a chat template",
        drafters=("EleutherAI/pythia-70m",),
        drafter_parameters=0.1,
    ),
)
DEFAULT_TARGET = PRESETS[0].id


def find_preset(model_id: str) -> Preset | None:
    """The preset with this short name or Hub id, if there is one."""
    return next((preset for preset in PRESETS if model_id in (preset.id, preset.source)), None)


def locate(model_id: str) -> str:
    """`embedded`, a Hub id or an existing folder for what the user wrote.

    Raises BadRequest for a folder that is not there, UnknownName for a bare word that is no preset: a typing error
    is then told at once, with no network.
    """
    name = model_id.strip()
    if not name:
        raise BadRequest("The model's name is empty.", f"Give a name such as {DEFAULT_TARGET}.")
    preset = find_preset(name)
    if preset is not None:
        return preset.source
    folder = Path(name).expanduser()
    if folder.is_dir():
        return str(folder)
    if name.startswith(("/", ".", "~", "\\")) or name.count("/") > 1:
        what = "a file, not a folder" if folder.exists() else "not there"
        raise BadRequest(f"The model folder {name} is {what}.", "Give a folder with config.json and *.safetensors.")
    if "/" not in name:
        raise UnknownName("model", name, [*(p.id for p in PRESETS), "a Hub id (owner/name)", "a local folder"])
    return name
