"""What each line of a trace must hold, checked field by field before anything is built from it."""

from collections.abc import Callable
from typing import Any

from decoding.errors import TraceError

MAX_NODES = 4096
MAX_RANKS = 4096
MAX_TEXT = 4 * 2**20
MAX_TOKEN = 2**31 - 1
SCHEMAS = (1,)

Check = Callable[[Any], str | None]
"""None when the value is right, else what it should be."""
_Lists = Callable[[list[Any]], bool]
_LISTS: dict[Check, _Lists] = {}
"""Of some checks: whether it holds for all of a list, much faster than one by one."""


def _integer(low: int, high: int) -> Check:
    def check(value: Any) -> str | None:
        right = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return None if right else f"a whole number from {low} to {high}"

    _LISTS[check] = lambda values: set(map(type, values)) == {int} and low <= min(values) and max(values) <= high
    return check


def _number(value: Any) -> str | None:
    right = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e30
    return None if right else "a number"


def _or_null(inner: Check) -> Check:
    def check(value: Any) -> str | None:
        return None if value is None else inner(value)

    if inner is _number:
        _LISTS[check] = _numbers_or_nulls
    return check


def _numbers_or_nulls(values: list[Any]) -> bool:
    kinds = set(map(type, values))
    known = [value for value in values if value is not None] if type(None) in kinds else values
    return kinds <= {int, float, type(None)} and (not known or (max(known) < 1e30 and min(known) > -1e30))


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) and len(value) <= MAX_TEXT else "a text"


def _array(inner: Check, longest: int) -> Check:
    quick = _LISTS.get(inner)

    def check(value: Any) -> str | None:
        if not isinstance(value, list) or len(value) > longest:
            return f"a list of at most {longest}"
        if quick is not None and value and quick(value):
            return None
        for item in value:
            if wrong := inner(item):
                return f"a list in which each is {wrong}"
        return None

    return check


def _rows(inner: Check, longest: int, width: int) -> Check:
    rows = _array(_array(inner, width), longest)

    def check(value: Any) -> str | None:
        return rows(value) or (None if len({len(row) for row in value}) <= 1 else "a list of rows of one length")

    return check


def _mapping(inner: Check, longest: int = 1_000_000) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, dict) or len(value) > longest:
            return "an object"
        for item in value.values():
            if wrong := inner(item):
                return f"an object in which each value is {wrong}"
        return None

    return check


def _pieces(value: Any) -> str | None:
    ids_are_numbers = isinstance(value, dict) and all(
        key.isascii() and key.isdigit() and len(key) < 11 for key in value
    )
    return _mapping(_text)(value) if ids_are_numbers else "an object from token ids to texts"


def _anything(_: Any) -> str | None:
    return None


token = _integer(0, MAX_TOKEN)
tokens = _array(token, 10_000_000)
count = _integer(0, MAX_TOKEN)
_node_floats = _array(_or_null(_number), MAX_NODES)
_node_ints = _array(_integer(0, MAX_TOKEN), MAX_NODES)

FIELDS: dict[str, dict[str, Any]] = {
    "header": {
        "schema": _anything,
        "target": _text,
        "drafter": _text,
        "strategy": _text,
        "settings": _mapping(_anything, 1000),
        "verifier": _text,
        "prompt": _text,
        "prompt_ids": tokens,
        "tokenizer": _text,
        "max_new_tokens": count,
        "temperature": _number,
        "top_p": _number,
        "top_k": count,
        "seed": _integer(-(2**63), 2**64),
        "dtype": _text,
        "device": _text,
        "cache": _text,
        "end_ids": tokens,
        "first_token": token,
        "first_text": _text,
        "prefill_seconds": _number,
        "versions": _mapping(_text, 1000),
        "git_commit": _text,
        "created": _text,
    },
    "round": {
        "index": count,
        "tree": {
            "token": _node_ints,
            "parent": _array(_integer(-1, MAX_NODES), MAX_NODES),
            "logprob": _node_floats,
            "source": _array(_integer(0, 2), MAX_NODES),
        },
        "verdict": {
            "path": _node_ints,
            "bonus": token,
            "logprob": _node_floats,
            "rank": _node_ints,
            "choice": _node_ints,
            "entropy": _node_floats,
            "top_token": _rows(token, MAX_NODES, MAX_RANKS),
            "top_logprob": _rows(_or_null(_number), MAX_NODES, MAX_RANKS),
        },
        "emitted": _array(token, MAX_NODES),
        "emitted_text": _array(_text, MAX_NODES),
        "cache_before": count,
        "cache_after": count,
        "seconds": _mapping(_number, 100),
        "decision": _mapping(_anything, 1000),
        "pieces": _pieces,
    },
    "summary": {
        "output_ids": tokens,
        "text": _text,
        "finish": _text,
        "metrics": _mapping(_anything, 1000),
    },
    "comparison": {
        "baseline": _mapping(_anything, 1000),
        "speedup": _or_null(_number),
    },
}
OPTIONAL: dict[str, dict[str, Check]] = {"header": {"retrieval": _text}}
"""Fields that came later: traces without them are read too."""
OBJECT_OR_NULL: dict[str, dict[str, dict[str, Check]]] = {
    "round": {
        "marginals": {
            "token": _rows(token, 1024, MAX_RANKS),
            "logprob": _rows(_or_null(_number), 1024, MAX_RANKS),
        }
    },
    "comparison": {
        "lossless": {
            "identical": lambda value: None if isinstance(value, bool) else "true or false",
            "first_divergence": _or_null(count),
            "margin": _or_null(_number),
        }
    },
}


def check_event(line: Any, number: int, first: bool) -> str:
    """The kind of a line, once every field is right; raises TraceError naming line and field."""
    if not isinstance(line, dict):
        raise TraceError(f"Line {number}: this is not a JSON object.", "A trace is one JSON object a line.")
    kind = line.get("kind")
    if not isinstance(kind, str) or kind not in FIELDS:
        raise TraceError(f"Line {number}: kind is {_short(kind)}.", f"It must be one of: {', '.join(FIELDS)}.")
    if first != (kind == "header"):
        raise TraceError(f"Line {number}: the header must be the first line, and only that.")
    if kind == "header" and (isinstance(line.get("schema"), bool) or line.get("schema") not in SCHEMAS):
        raise TraceError(
            f"Line {number}: this trace has schema {_short(line.get('schema'))}; this version reads schema 1.",
            "Update Canopy, or record the run again.",
        )
    _check_fields(line, FIELDS[kind], number, "")
    _check_fields(line, {name: check for name, check in OPTIONAL.get(kind, {}).items() if name in line}, number, "")
    for name, wanted in OBJECT_OR_NULL.get(kind, {}).items():
        if name not in line or line[name] is not None:
            _check_fields(line, {name: wanted}, number, "")
    return str(kind)


def _check_fields(line: dict[str, Any], wanted: dict[str, Any], number: int, above: str) -> None:
    for name, check in wanted.items():
        if name not in line:
            raise TraceError(f"Line {number}: the field {above}{name} is missing.")
        value = line[name]
        if isinstance(check, dict):
            if not isinstance(value, dict):
                raise TraceError(f"Line {number}: {above}{name} must be an object.")
            _check_fields(value, check, number, f"{above}{name}.")
        elif wrong := check(value):
            raise TraceError(f"Line {number}: {above}{name} must be {wrong}.")


def _short(value: Any) -> str:
    return repr(value)[:60]
