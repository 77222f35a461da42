"""`python -m decoding bench NAME`: benchmarks; the last line of output is one JSON object."""

import argparse
import json

from decoding.bench import decode, memory, round, tree

HELP = "benchmarks; the last line of output is one JSON object"
BENCHMARKS = {"tree": tree, "round": round, "decode": decode, "memory": memory}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the benchmarks and their options."""
    parsers = parser.add_subparsers(dest="bench", required=True, metavar="NAME")
    for name, module in BENCHMARKS.items():
        module.add_arguments(parsers.add_parser(name, help=module.HELP, description=module.HELP))


def run(args: argparse.Namespace) -> int:
    """Runs one benchmark."""
    print(json.dumps(BENCHMARKS[args.bench].run(args)))
    return 0
