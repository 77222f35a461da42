"""The command line. Each command is a module with HELP, add_arguments and run."""

import argparse
import os
import sys

from decoding import cli_bench, cli_calibrate, cli_generate, cli_list, cli_trace, cli_train
from decoding.errors import CanopyError

COMMANDS = {
    "generate": cli_generate,
    "list": cli_list,
    "train": cli_train,
    "calibrate": cli_calibrate,
    "bench": cli_bench,
    "trace": cli_trace,
}


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="python -m decoding",
        description="Tree speculative decoding of Hugging Face causal language models, exact and recorded.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=module.HELP, description=module.HELP))
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    args = build_parser().parse_args(arguments)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        exit_code: int = COMMANDS[args.command].run(args)
        return exit_code
    except CanopyError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 141


if __name__ == "__main__":
    sys.exit(main())
