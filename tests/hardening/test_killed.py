"""Processes killed while they write: what was written before is whole."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from decoding.files import write_atomically
from decoding.trace import TraceWriter, read_trace
from tests.hardening.short_run import short_lines
from tests.hardening_counts import Effort, Tally

pytestmark = pytest.mark.hardening
LINES = short_lines(rounds=120)[:-1]


def killed_after(seconds: float, work: Callable[[Callable[[], None]], None]) -> int:
    """Runs `work` in a process of its own and kills it; gives how often it called what it was given."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            work(lambda: os.write(writing, b"."))
            time.sleep(60)
        finally:
            os._exit(0)
    os.close(writing)
    done = len(os.read(reading, 1))  # it has begun
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while piece := os.read(reading, 65536):
        done += len(piece)
    os.close(reading)
    return done


def test_a_trace_of_a_killed_run_has_every_round_that_was_told(tmp_path: Path, effort: Effort, tally: Tally) -> None:
    tries, torn, rounds = effort(300, 15), 0, 0
    random = Random(0)

    def write(path: Path, told: Callable[[], None]) -> None:
        with TraceWriter(path) as writer:
            for line in LINES:
                writer.write(line)
                told()

    for number in range(tries):
        path = tmp_path / f"{number}.jsonl"
        told = killed_after(random.random() * 0.02, lambda told, path=path: write(path, told))
        trace = read_trace(path)
        assert len(trace.lines) in (told, told + 1), "nothing is lost but the line in flight"
        assert list(trace.lines) == LINES[: len(trace.lines)]
        torn += trace.torn
        rounds += len(trace.rounds)
        path.unlink()
    assert rounds > tries
    tally(f"{tries} runs killed while writing their trace: {rounds:,} rounds all read back, {torn} torn ends left out")


def test_a_torn_line_costs_only_itself(tmp_path: Path, effort: Effort, tally: Tally) -> None:
    """A kill may leave any part of a line: here every kind of cut is made."""
    raw = b"".join(line.encode() for line in written(tmp_path))
    ends = [place for place, byte in enumerate(raw) if byte == ord("\n")]
    step = max(1, len(raw) // effort(3_000, 150))
    cuts = range(ends[0] + 1, len(raw), step)
    for cut in cuts:
        path = tmp_path / "cut.jsonl"
        path.write_bytes(raw[:cut])
        whole = sum(end < cut for end in ends)
        assert len(read_trace(path).lines) - whole in (0, 1)
    tally(f"{len(cuts):,} traces cut at any byte: every whole line read")


def written(folder: Path) -> list[str]:
    path = folder / "whole.jsonl"
    with TraceWriter(path) as writer:
        for line in LINES[:12]:
            writer.write(line)
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


def test_a_cache_file_is_the_old_or_the_new_one(tmp_path: Path, effort: Effort, tally: Tally) -> None:
    path, tries, changed = tmp_path / "costs.json", effort(200, 10), 0
    random = Random(1)
    contents = [bytes([letter]) * 400_000 for letter in b"ab"]

    def write(told: Callable[[], None]) -> None:
        told()
        for number in range(1000):
            write_atomically(path, contents[number % 2])

    write_atomically(path, contents[1])
    for _ in range(tries):
        before = path.read_bytes()
        killed_after(random.random() * 0.02, write)
        after = path.read_bytes()
        assert after in contents, "never a part"
        changed += after != before
    write_atomically(path, b"done")
    assert path.read_bytes() == b"done"
    tally(f"{tries} processes killed while replacing a cache file: always whole, {changed} times the other content")
