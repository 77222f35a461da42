"""Traces with something wrong in them, by seed."""

import json
from random import Random
from typing import Any

SPICE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**70, -0.5, 1e29, 1e300, 1e400, "", "x", "\ud800", "\x00",
    "9" * 5000, [], [[]], [[], [1]], [None], [0.5], ["a"], {}, {"0": "x"}, {"-1": "x"}, {"": 1},
)  # fmt: skip


def mutated(lines: list[dict[str, Any]], random: Random) -> bytes:
    """A trace with one thing wrong, or not: a value swapped, dropped, moved or torn at any depth, or bytes turned."""
    copy = json.loads(json.dumps(lines))
    way = random.randrange(6)
    if way < 4:
        place: Any = copy[random.randrange(len(copy))]
        while True:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            key = random.choice(list(keys))
            deeper = place[key]
            if isinstance(deeper, dict | list) and deeper and random.random() < 0.75:
                place = deeper
                continue
            break
        if way == 0:
            del place[key]
        elif way == 1 and isinstance(place, list):
            place.insert(key, random.choice(place))
        elif way == 1:
            place["kind"] = random.choice(["header", "round", "summary", "comparison", "", 7])
        else:
            place[key] = random.choice(SPICE)
    elif way == 4:
        one, other = random.randrange(len(copy)), random.randrange(len(copy))
        copy[one], copy[other] = copy[other], copy[one]
    raw = "".join(json.dumps(line) + "\n" for line in copy).encode()
    if way == 5:
        at = random.randrange(len(raw))
        raw = (
            raw[:at]
            + random.choice([b"", b"\xff", b"\n", b'"', b"{", b"\x00", b"NaN"])
            + raw[at + random.randrange(3) :]
        )
    return raw
