"""Links in the page's <head> from the first byte on. Gradio adds its `head` only once its own code runs, which is too
late for what must come before that code, and makes the browser ask for one file after another."""

import posixpath
import re
from pathlib import Path

IMPORT = re.compile(r'^(?:import|export)\b[^"]*?from "(\.{1,2}/[\w/.-]+)"', re.MULTILINE)
LINK = re.compile(r'<link rel="stylesheet" href="([^"]+)">')


def early_head(static: Path) -> str:
    """The script that must run first, and preloads of everything that the first tab shows."""
    styles = LINK.findall((static / "head.html").read_text(encoding="utf-8"))
    links = ['<script src="canopy/quiet.js"></script>']
    links += [f'<link rel="preload" as="style" href="{href}">' for href in styles]
    links += [f'<link rel="modulepreload" href="canopy/{name}">' for name in imported_modules(static, "page.js")]
    links += ['<link rel="preload" as="fetch" crossorigin="anonymous" href="canopy/traces/welcome.jsonl">']
    return "\n".join(links)


def imported_modules(static: Path, first: str) -> list[str]:
    """A module and all that it imports at once; what it imports later, when a tab is opened, is not among them."""
    found = [first]
    for name in found:
        for match in IMPORT.findall((static / name).read_text(encoding="utf-8")):
            module = posixpath.normpath(posixpath.join(posixpath.dirname(name), match))
            if module not in found:
                found.append(module)
    return found
