"""Made-up traces are traces: the strict reader takes them, and they are of the size that was asked for."""

import pytest

from decoding.trace import read_trace
from tests.workbench.synthetic_trace import write_synthetic


@pytest.mark.parametrize("nodes", [8, 64, 1024])
def test_a_made_up_trace_is_valid(tmp_path, nodes):
    trace = read_trace(write_synthetic(tmp_path / "made-up.jsonl", rounds=20, nodes=nodes))
    assert len(trace.rounds) == 20
    assert {item.tree.drafted for item in trace.rounds} == {nodes}
    assert trace.summary is not None
    assert len({item.accepted for item in trace.rounds}) > 2
    emitted = [token for item in trace.rounds for token in item.emitted]
    assert [trace.header.first_token, *emitted] == list(trace.summary.output_ids)
    for before, after in zip(trace.rounds, trace.rounds[1:], strict=False):
        assert after.tree.token[0] == before.emitted[-1]


def test_the_accepted_path_is_what_the_target_chose(tmp_path):
    for item in read_trace(write_synthetic(tmp_path / "made-up.jsonl", rounds=10, nodes=64)).rounds:
        path, tree, verdict = item.verdict.path, item.tree, item.verdict
        assert list(tree.token[path[1:]]) == list(verdict.choice[path[:-1]])
        end = path[-1]
        assert verdict.bonus == verdict.choice[end]
        assert verdict.bonus not in tree.token[tree.parent == end]
