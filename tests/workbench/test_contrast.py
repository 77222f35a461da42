"""Contrast of every text and mark, in both themes, reckoned from the style sheet's variables (WCAG 1.4.3, 1.4.11)."""

import re
from pathlib import Path

import pytest

STYLE = Path(__file__).parents[2] / "static" / "canopy.css"
Colour = tuple[float, float, float]

TEXTS = [  # text, what it stands on
    *[(text, ground) for text in ("ink", "muted", "accent", "warn") for ground in ("page", "surface")],
    *[(text, "surface") for text in ("accepted-ink", "bonus-ink")],
    ("accepted-ink", "page"),
    *[(text, "sunken") for text in ("ink", "muted")],
    *[(text, "warn-soft") for text in ("ink", "muted", "warn")],
    ("accent-ink", "accent"),
    ("surface", "ink"),
    # Tokens on the colour of their source, as shares of the mixture in canopy.css.
    ("ink", "accepted 24% surface"),
    ("ink", "retrieval 28% surface"),
    ("ink", "bonus 30% surface"),
    ("ink", "bonus 50% surface"),
    ("ink", "draft 55% surface"),
    ("ink", "draft 18% surface"),
]
STAGES = ("draft", "retrieve", "build", "compile", "verify", "walk", "commit", "update", "refresh")
MARKS = [
    *[(mark, "surface") for mark in ("accepted", "draft-line", "retrieval-line", "bonus", "edge", "muted")],
    *[(mark, "surface") for mark in ("select", "accent", "warn", "accepted-ink")],
    *[(f"stage-{stage}", "surface") for stage in STAGES],
    *[(mark, "page") for mark in ("muted", "accepted", "retrieval-line", "warn")],
]


def variables(theme: str) -> dict[str, str]:
    """The variables of a theme; the dark one begins with those of the light one."""
    blocks = re.findall(r"^body[^{]*\{([^}]*--cy-[^}]*)\}", STYLE.read_text(encoding="utf-8"), re.MULTILINE)
    light, dark = (dict(re.findall(r"--cy-([\w-]+):\s*(#\w{6}|var\(--cy-[\w-]+\))", block)) for block in blocks[:2])
    return light if theme == "light" else light | dark


def colour(name: str, known: dict[str, str]) -> Colour:
    """A variable's colour, or a mixture `NAME SHARE% GROUND`."""
    if " " in name:
        over, share, ground = name.split()
        part = int(share.rstrip("%")) / 100
        above, below = colour(over, known), colour(ground, known)
        return tuple(part * a + (1 - part) * b for a, b in zip(above, below, strict=True))  # type: ignore[return-value]
    value = known[name]
    if value.startswith("var"):
        return colour(value[9:-1], known)
    return tuple(int(value[i : i + 2], 16) / 255 for i in (1, 3, 5))  # type: ignore[return-value]


def luminance(rgb: Colour) -> float:
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Colour, other: Colour) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_ruler_is_right():
    black, white, grey = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (0x77 / 255,) * 3
    assert contrast(black, white) == pytest.approx(21)
    assert contrast(grey, white) == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("pairs", "least"), [(TEXTS, 4.5), (MARKS, 3.0)], ids=["texts", "marks"])
def test_contrast(theme, pairs, least):
    known = variables(theme)
    found = {pair: contrast(colour(pair[0], known), colour(pair[1], known)) for pair in pairs}
    assert {f"{a} on {b}": round(ratio, 2) for (a, b), ratio in found.items() if ratio < least} == {}
