"""`python -m decoding generate`: one prompt, decoded with draft trees."""

import argparse
import contextlib
import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from decoding.errors import BadRequest

HELP = "decode one prompt with draft trees"
_PARTS = ("target", "drafter", "retrieval", "strategy", "settings", "verifier", "dtype", "device")
EPILOG = """\
examples:
  python -m decoding generate --prompt "Why is the sky blue?"
  python -m decoding generate --prompt "Why is the sky blue?" --strategy recycle --budget 24 --compare
  python -m decoding generate --prompt-file notes.txt --raw --strategy linear --drafter prompt-lookup --trace run.jsonl
  python -m decoding generate --prompt "2+2=" --strategy fixed --drafter self --set depth=4 --set branching=2 --json

With --json the last line of standard output is one JSON object. Progress goes to standard error.
tokens_per_round counts the bonus token, accepted_per_round does not.
exit codes: 0 done, 1 something failed, 2 a bad request, 130 interrupted (the trace keeps the rounds so far).
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `generate`."""
    source = parser.add_argument_group("prompt")
    source.add_argument("--prompt", metavar="TEXT", help="what to ask; put into the model's chat template")
    source.add_argument("--prompt-file", metavar="F", type=Path, help="read the prompt from a UTF-8 file (- is stdin)")
    source.add_argument("--raw", action="store_true", help="go on from the text as it is, without the chat template")

    parts = parser.add_argument_group("what decodes")
    parts.add_argument("--target", metavar="ID", help="preset, Hub id or folder (default: the embedded SmolLM2-135M)")
    parts.add_argument("--drafter", metavar="ID", help="see `list` (default: the strategy's usual one)")
    parts.add_argument("--strategy", metavar="NAME", help="see `list` (default: ddtree, or recycle without a drafter)")
    parts.add_argument("--verifier", metavar="NAME", help="see `list` (default: by temperature)")
    parts.add_argument("--budget", metavar="N", help="most drafted nodes in a tree; short for --set budget=N")
    parts.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], dest="settings", help="a setting of the strategy"
    )

    text = parser.add_argument_group("the text")
    text.add_argument("--max-new-tokens", metavar="N", type=int, default=128, help="default: %(default)s")
    text.add_argument("--temperature", metavar="T", type=float, default=0.0, help="0 is greedy (default)")
    text.add_argument("--top-p", metavar="P", type=float, default=1.0, help="keep the likeliest mass P (default: all)")
    text.add_argument("--top-k", metavar="K", type=int, default=0, help="keep the K likeliest tokens (default: all)")
    text.add_argument("--seed", metavar="S", type=int, default=0, help="of the target's draws (default: %(default)s)")

    place = parser.add_argument_group("where")
    place.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto", help="default: %(default)s")
    place.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: %(default)s")
    place.add_argument(
        "--cache",
        choices=("preallocated", "rebuild"),
        default="preallocated",
        help="how rejected nodes leave the cache: compaction in place, or DynaTree's rollback and rebuild",
    )

    output = parser.add_argument_group("output")
    output.add_argument("--compare", action="store_true", help="also decode plainly: speedup and a lossless check")
    output.add_argument("--trace", metavar="FILE", type=Path, help="record every round as JSON Lines")
    output.add_argument("--json", action="store_true", help="end with one JSON object")
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    from decoding.catalogue import usual_strategy  # late: `--help` must not wait for torch
    from decoding.model_store import ModelStore
    from decoding.models import DEFAULT_TARGET
    from decoding.run import RunSettings, compare
    from decoding.run import run as run_once
    from decoding.trace import TraceWriter

    target = args.target or DEFAULT_TARGET
    settings = RunSettings(
        prompt=_prompt(args),
        target=target,
        drafter=args.drafter,
        strategy=args.strategy or usual_strategy(target),
        settings=_strategy_settings(args),
        verifier=args.verifier,
        raw=args.raw,
        max_new_tokens=args.max_new_tokens,
        temperature=args.temperature,
        top_p=args.top_p,
        top_k=args.top_k,
        seed=args.seed,
        dtype=args.dtype,
        device=args.device,
        cache=args.cache,
    )
    decode = compare if args.compare else run_once
    seen: dict[str, dict[str, Any]] = {}
    with contextlib.ExitStack() as stack:
        should_stop = stack.enter_context(_stop_on_interrupt())
        writer = stack.enter_context(TraceWriter(args.trace)) if args.trace else None
        for line in decode(settings, ModelStore(), should_stop, _report):
            seen[line["kind"]] = line
            if writer:
                writer.write(line)
            if not args.json:
                _show_text(line)
    summary = seen["summary"]
    result = _result(seen)
    _show_numbers(result, summary)
    if args.json:
        print(json.dumps(result, ensure_ascii=False))
    return 130 if summary["finish"] == "interrupted" or should_stop() else 0


def _prompt(args: argparse.Namespace) -> str:
    if (args.prompt is None) == (args.prompt_file is None):
        raise BadRequest("There must be one prompt.", "Give either --prompt TEXT or --prompt-file F.")
    if args.prompt is not None:
        return str(args.prompt)
    try:
        if str(args.prompt_file) == "-":
            return sys.stdin.read()
        return str(args.prompt_file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadRequest(f"The prompt file {args.prompt_file} cannot be read: {reason}.", "Check the file.") from None


def _strategy_settings(args: argparse.Namespace) -> dict[str, object]:
    given: dict[str, object] = {}
    for item in args.settings:
        name, equals, value = item.partition("=")
        if not equals:
            raise BadRequest(f"--set {item!r} is not of the form key=value.", "For example: --set depth=4")
        given[name.strip()] = value
    if args.budget is not None:
        given["budget"] = args.budget
    return given


@contextlib.contextmanager
def _stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C lets the round in flight finish, so that the trace ends well; the second ends at once."""
    asked: list[int] = []

    def ask(signal_number: int, _: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(signal_number)
        _report("stopping after this round (Ctrl-C again to stop at once)")

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)


def _report(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _show_text(line: dict[str, Any]) -> None:
    if line["kind"] == "header":
        print(line["first_text"], end="", flush=True)
    elif line["kind"] == "round":
        print("".join(line["emitted_text"]), end="", flush=True)
    elif line["kind"] == "summary":
        print(flush=True)


def _result(seen: dict[str, dict[str, Any]]) -> dict[str, Any]:
    summary, header = seen["summary"], seen["header"]
    result = {
        "prompt_ids": header["prompt_ids"],
        "output_ids": summary["output_ids"],
        "text": summary["text"],
        "finish": summary["finish"],
        **summary["metrics"],
        **{name: header[name] for name in _PARTS},
    }
    if comparison := seen.get("comparison"):
        result |= {name: comparison[name] for name in ("baseline", "speedup", "lossless")}
    return result


def _show_numbers(result: dict[str, Any], summary: dict[str, Any]) -> None:
    def shown(value: float | None, form: str) -> str:
        return "—" if value is None else format(value, form)

    _report(
        f"{result['new_tokens']} tokens in {result['rounds']} rounds ({summary['finish']}): "
        f"{shown(result['tokens_per_round'], '.2f')} tokens/round (bonus included), "
        f"{shown(result['accepted_per_round'], '.2f')} accepted/round, "
        f"acceptance {shown(result['acceptance_rate'], '.1%')}, "
        f"{shown(result['tokens_per_second'], '.1f')} tokens/s, first token {result['ttft_seconds']:.2f} s"
    )
    if "speedup" not in result:
        return
    speedup, lossless = result["speedup"], result["lossless"]
    verdict = "slower than plain decoding" if speedup is not None and speedup < 1 else "plain decoding"
    _report(f"{shown(speedup, '.2f')}x {verdict} ({shown(result['baseline']['tokens_per_second'], '.1f')} tokens/s)")
    if lossless and lossless["identical"]:
        _report("identical to plain greedy decoding")
    elif lossless:
        _report(
            f"differs from plain greedy decoding from token {lossless['first_divergence']} on, where the target's two "
            f"best tokens stood {shown(lossless['margin'], '.4f')} nats apart"
        )
