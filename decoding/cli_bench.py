"""`python -m decoding bench NAME`: benchmarks; the last line of output is one JSON object."""

import argparse
import importlib
import json

HELP = "benchmarks; the last line of output is one JSON object"
BENCHMARKS = {
    "tree": "building DDTree's tree against a plain heap",
    "round": "what a round costs beside the forward passes; --shape qwen3-8b: a round over a plain step",
    "decode": "plain decoding through our loop against Hugging Face's generate",
    "planning": "what strategies cost beside models: planning a tree, and keeping retrieval sources up to date",
    "memory": "peak memory above the models' own weights and cache",
    "drafters": "how often drafters agree with the target, and tokens per round of their trees, on Spec-Bench",
    "speed": "decoding time by category on Spec-Bench, against plain decoding and three ways of generate",
    "strategies": "which of the papers' orders hold: trees, budgets, grafts, auto, by tokens per round and by cost",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the benchmarks; their own options are read by their modules, which need torch."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(f"  {name:<10} {text}" for name, text in BENCHMARKS.items())
    parser.add_argument("bench", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("options", nargs=argparse.REMAINDER, help="see: bench NAME --help")


def run(args: argparse.Namespace) -> int:
    """Runs one benchmark."""
    module = importlib.import_module(f"decoding.bench.{args.bench}")
    parser = argparse.ArgumentParser(prog=f"python -m decoding bench {args.bench}", description=module.__doc__)
    module.add_arguments(parser)
    print(json.dumps(module.run(parser.parse_args(args.options))))
    return 0
