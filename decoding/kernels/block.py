"""A whole draft of a DFlash drafter in one call: what was committed is read, a block denoised, its logits read."""

from typing import NamedTuple

from decoding.kernels import compiled
from decoding.kernels.context import Reading, read_context
from decoding.kernels.crew import Marks
from decoding.kernels.decoder import Pass, Weights, decoder_pass
from decoding.kernels.linear import project
from decoding.kernels.reading import Softening, Table, read_table, soften_table


class Projection(NamedTuple):
    """A matrix `[outs, hidden]`."""

    address: int
    size: int
    """Bytes of its numbers (see `tiles`)."""
    marks: Marks


@compiled
def draft_block(
    weights: Weights, reading: Reading, run: Pass, head: Projection, table: Table, softening: Softening, thread: int
) -> None:
    """Every thread of a crew calls it with the same arguments but its number; the rows of `table` are those of the
    block but the first."""
    read_context(weights, reading, thread)
    decoder_pass(weights, run, thread)
    project(run.final[1:], head.address, head.size, table.logits, head.marks, 0, thread)
    read_table(table, thread)
    soften_table(table.logits, softening, thread)
