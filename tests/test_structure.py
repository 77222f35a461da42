"""Imports go one way, the core knows nothing of the page's libraries, and a class name means one thing."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE_LIBRARIES = {"gradio", "plotly", "networkx", "pandas", "workbench", "app"}
LAYERS = (
    {"types", "errors", "settings", "provenance", "memory", "stage_clock", "detokenizer", "prompts", "presets",
     "user_cache", "measuring", "files", "shipped", "menu", "zero_gpu", "exhaustion"},
    {"tree", "sampling", "topk", "template", "tree_mask", "marginals", "hub", "model_config", "wheel", "manifest",
     "gguf_file", "embedded", "calibration", "devices", "models", "few_rows", "kernels", "host_rows", "draws",
     "round_costs", "large_pages", "host_layers", "host_rotary", "kernel_linear", "weight_files", "fetch"},
    {"layout", "kv_cache", "scores", "host_body"},
    {"target", "drafters", "strategies", "verifiers", "fit", "catalogue", "model_store", "cost_probe", "survey",
     "thinking", "drafter_loading"},
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


COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
SELECTORS = re.compile(r"([^{};@]+)\{")
OWN_CLASS = re.compile(r"\.((?:cy|k)-[\w-]+)")
WIDER_THAN_A_TAB = re.compile(r"#|\.gradio-container|\.dark|\bbody\b")


def listed(selectors: str) -> list[str]:
    """The selectors of a rule; commas within brackets part none."""
    found, depth = [""], 0
    for character in selectors:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            found.append("")
        else:
            found[-1] += character
    return [selector.strip() for selector in found]


def styled_at_large(sheet: str) -> set[str]:
    """The classes of the page that a style sheet styles wherever they stand: by no other class than their own."""
    found = set()
    for match in SELECTORS.finditer(COMMENT.sub("", sheet)):
        for selector in listed(match[1]):
            classes = set(OWN_CLASS.findall(selector))
            if len(classes) == 1 and selector.startswith(".") and not WIDER_THAN_A_TAB.search(selector):
                found |= classes
    return found


def test_a_class_is_styled_at_large_in_one_style_sheet_only() -> None:
    """All tabs live in one document: what a second sheet says of a bare class changes the first one's tab too."""
    sheets = defaultdict(set)
    for path in sorted((ROOT / "static").glob("*.css")):
        for name in styled_at_large(path.read_text(encoding="utf-8")):
            sheets[name].add(path.name)
    assert len(sheets) > 100
    assert {name: found for name, found in sheets.items() if len(found) > 1} == {}


def test_what_counts_as_styled_at_large() -> None:
    sheet = """
    /* .cy-said { } */ .cy-bare, .cy-tab .cy-inner:is(.cy-a, .cy-b) { color: red }
    @media (max-width: 9px) { .cy-narrow[hidden] > p { margin: 0 } :is(.cy-x, .cy-y) .cy-z { top: 0 } }
    #cy-setup .cy-field { top: 0 }"""
    assert styled_at_large(sheet) == {"cy-bare", "cy-narrow"}
