"""Imports go one way, and the core knows nothing of the page's libraries."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE_LIBRARIES = {"gradio", "plotly", "networkx", "pandas", "workbench", "app"}
LAYERS = (
    {"types", "errors", "settings", "provenance", "memory", "stage_clock", "detokenizer", "prompts", "presets",
     "user_cache", "measuring", "files", "shipped", "exhaustion"},
    {"tree", "sampling", "topk", "template", "tree_mask", "marginals", "hub", "model_config", "wheel", "manifest",
     "gguf_file", "embedded", "calibration", "devices", "models", "few_rows", "kernels", "host_rows", "draws",
     "round_costs", "host_layers", "kernel_linear", "weight_files", "fetch"},
    {"layout", "kv_cache", "scores", "host_body"},
    {"target", "drafters", "strategies", "verifiers", "fit", "catalogue", "model_store", "cost_probe", "survey"},
    {"loop", "metrics", "trace", "trace_schema", "run", "lanes", "replay", "calibrate"},
    {"training", "bench", "cli_bench", "cli_calibrate", "cli_generate", "cli_list", "cli_trace", "cli_train",
     "__main__"},
)  # fmt: skip
HEIGHT = {module: height for height, layer in enumerate(LAYERS) for module in layer}
FILES = sorted((ROOT / "decoding").rglob("*.py"))


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_core_imports_downwards_only(path: Path) -> None:
    names = imported(path)
    assert not {name.split(".")[0] for name in names} & PAGE_LIBRARIES
    own = path.relative_to(ROOT / "decoding").parts[0].removesuffix(".py")
    if own == "__init__":
        return
    for name in names:
        first, _, rest = name.partition(".")
        if first == "decoding" and rest:
            module = rest.split(".")[0]
            # The contracts of a package may be known below it; what fills them may not.
            below = HEIGHT[module] <= HEIGHT[own] or rest.startswith(f"{module}.base")
            assert below, f"{own} imports {module}"


def test_every_module_has_its_place() -> None:
    modules = {path.relative_to(ROOT / "decoding").parts[0].removesuffix(".py") for path in FILES}
    assert modules - {"__init__"} == set(HEIGHT)
