"""`python -m decoding bench NAME`: benchmarks; the last line of output is one JSON object."""

import argparse
import importlib
import json

HELP = "benchmarks; the last line of output is one JSON object"
NAMES = ("tree", "round", "decode", "memory")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the benchmarks and their options."""
    parsers = parser.add_subparsers(dest="bench", required=True, metavar="NAME")
    for name in NAMES:
        module = _module(name)
        module.add_arguments(parsers.add_parser(name, help=module.HELP, description=module.HELP))


def run(args: argparse.Namespace) -> int:
    """Runs one benchmark."""
    print(json.dumps(_module(args.bench).run(args)))
    return 0


def _module(name: str):  # type: ignore[no-untyped-def]
    return importlib.import_module(f"decoding.bench.{name}")
