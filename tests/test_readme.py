"""What the README shows of code works as it stands there."""

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decoding.__main__ import main
from decoding.drafters.autoregressive import Autoregressive
from decoding.drafters.base import Drafter
from decoding.loop import Request, decode
from decoding.sampling import Sampling
from decoding.settings import options_of
from decoding.strategies import STRATEGIES, make_strategy
from decoding.target import Target
from decoding.types import Round, Summary, Tree
from decoding.verifiers import make_verifier
from tests.decoding.strategies.scripted import Scripted
from tests.decoding.test_lossless import PROMPT, plain_greedy
from tests.decoding.test_replay import block_drafter, blurred
from tests.tiny_models import VOCAB, tiny_target

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
MODULE = "readme_strategy"


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The strategy of "Adding a strategy", written to its file and put into the table as the README says."""
    section = README.partition("### Adding a strategy\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    path = tmp_path / f"{MODULE}.py"
    path.write_text(code)
    spec = importlib.util.spec_from_file_location(MODULE, path)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, MODULE, module)
    spec.loader.exec_module(module)
    (line,) = re.findall(r'in the table: ("[\w-]+": \w+,)$', code, re.MULTILINE)
    ((name, kind),) = eval(f"{{{line}}}", vars(module)).items()
    assert name not in STRATEGIES
    monkeypatch.setitem(STRATEGIES, name, kind)
    return name


def drafters(target: Target, folder: Path) -> dict[str, Drafter]:
    return {
        "one-pass": block_drafter(target, folder),
        "stepwise": Autoregressive(blurred("llama"), VOCAB),
        "always right": Autoregressive(target, VOCAB),
    }


@pytest.mark.parametrize("least", [0, 0.2, 1])
def test_the_added_strategy_decodes_exactly(added: str, least: float, tmp_path: Path) -> None:
    target = tiny_target("llama")
    expected = plain_greedy(target, PROMPT, 20)
    for name, drafter in drafters(target, tmp_path).items():
        strategy = make_strategy(added, {"least": least, "budget": "6"})
        assert drafter_kind(drafter) in strategy.needs
        request = Request("", PROMPT, 20)
        _, *rounds, last = decode(target, drafter, strategy, make_verifier(None, Sampling()), request)
        assert isinstance(last, Summary)
        assert list(last.output_ids) == expected, name
        trees = [item.tree for item in rounds if isinstance(item, Round)]
        assert all(chain(tree) and tree.drafted <= 6 for tree in trees)
        assert all(np.exp(tree.logprob.sum()) >= least - 1e-6 for tree in trees)
        if least == 0 and name == "always right":
            assert len(trees) == 3, "six drafted tokens and the bonus in a round"


def drafter_kind(drafter: Drafter) -> str:
    return "stepwise" if isinstance(drafter, Autoregressive) else "one-pass"


def chain(tree: Tree) -> bool:
    return tree.parent.tolist() == list(range(-1, tree.drafted))


@pytest.mark.parametrize(("least", "tokens"), [(0.2, 3), (0.5, 1), (0.9, 0), (0.01, 4)])
def test_the_added_strategy_stops_where_it_says(added: str, least: float, tokens: int) -> None:
    """Probabilities .8, .6 * .8 = .48, .7 * .48 = .336, then .03 * .336: .01."""
    script: dict[Any, list[float]] = {(): [0.8], (0,): [0.6], (0, 0): [0.7], (0, 0, 0): [0.03]}
    drafter = Scripted(script)
    tree = make_strategy(added, {"least": least}).grow(drafter, 5, 10).tree
    assert tree.drafted == tokens
    assert len(drafter.asked) == min(tokens + 1, 5), "no step beyond the first that is not wanted"
    assert make_strategy(added, {"least": least}).grow(drafter, 5, 2).tree.drafted == min(tokens, 2)
    assert len(drafter.asked) <= 2


def test_the_added_strategy_leaves_no_trace() -> None:
    assert "sure-chain" not in STRATEGIES
    assert MODULE not in sys.modules


def test_it_is_listed_as_any_other(added: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(options_of(STRATEGIES[added].settings_class)) == ["budget", "least"]
    assert main(["list"]) == 0
    listed = capsys.readouterr().out
    assert added in listed
    assert "least=0.2 (0 to 1): probability of the whole chain below which it ends" in listed
