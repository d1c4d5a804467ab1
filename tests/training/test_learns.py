"""The smoke version of the proof on two cores: from a shipped cold start, a few minutes, single families, no SmolLM2.

In SmolLM2's place stands a worker that is always wrong, so that the workers' numbers are those of the cold start.
"""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
pytest.importorskip("reasoning_gym")

from conductor_plugin.evaluation.store import Store  # noqa: E402
from conductor_plugin.plan import PlanRules  # noqa: E402
from training import learn  # noqa: E402
from training.before import parse_rates  # noqa: E402
from training.compared import written  # noqa: E402
from training.config import load_config  # noqa: E402
from training.curriculum import train_once  # noqa: E402
from training.families import POOL, TRAINED, questions  # noqa: E402
from training.grpo import training_pool  # noqa: E402

pytestmark = pytest.mark.local
SHIPPED = Path(learn.__file__).parent / "shipped" / "cold-start"
SINGLE = [family for family in TRAINED if not family.chained]


def config(tmp_path):
    """The proof's, shorter."""
    pool = tmp_path / "pool.yaml"
    pool.write_text(POOL.read_text().replace("kind: local", "kind: tests.training.world:fool").split("    params:")[0])
    whole = load_config("two-cores")
    grpo = whole.grpo.model_copy(update={"questions": 8, "rollouts": 16, "batch": 128, "iterations": 40})
    return whole.model_copy(update={"pool": str(pool), "grpo": grpo})


@pytest.mark.timeout(900)
def test_held_out_accuracy_rises_and_plans_stay_valid(tmp_path):
    torch.set_num_threads(1)
    settings, asked = config(tmp_path), questions("train", 100, SINGLE)
    pool, held_out = training_pool(settings), questions("held-out", 8, SINGLE)
    store = Store(f"sqlite:///{tmp_path / 'answers.sqlite'}")

    def answers(model):
        texts = learn.completions(settings, pool, model, held_out, temperature=1)
        rows = learn.answered([written(str(model), held_out, texts, pool, 3)], held_out, store)
        counts = parse_rates(texts, PlanRules(workers=4, max_steps=3)).values()
        return sum(row.outcome == "right" for row in rows) / len(rows), sum(v for v, _ in counts) / len(texts)

    before, _ = answers(SHIPPED)
    done = train_once(settings, SHIPPED, tmp_path / "run", asked, learn.TextGrader, print)
    after, valid = answers(tmp_path / "run" / "model")
    assert done.status == "finished"
    assert after >= before + 0.15
    assert valid >= 0.9
