"""A recorded run of a few small rounds, and servers that replay it."""

import json
from pathlib import Path
from typing import Any

from tests.workbench.synthetic_trace import synthetic_lines

ROUNDS = 4


def short_lines(rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """Header, rounds of six nodes, summary."""
    return json.loads(json.dumps(synthetic_lines(rounds, 6)))


def write_short(path: Path, rounds: int = ROUNDS) -> Path:
    """The same as a trace file."""
    path.write_text("".join(json.dumps(line) + "\n" for line in short_lines(rounds)), encoding="utf-8")
    return path
