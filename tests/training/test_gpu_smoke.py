"""The script for machines with a GPU, run on the CPU with a few thousand parameters; and what it says without a GPU."""

import re

import pytest
import torch

from training import gpu_smoke
from training.records import read_lines


def test_the_same_script_on_the_cpu(tmp_path, capsys):
    torch.set_num_threads(1)
    gpu_smoke.smoke(tmp_path, "tiny", 2)
    told = capsys.readouterr().out
    assert re.search(r"^0\.0000\d\dB parameters on ", told, re.M), told
    rows = re.findall(r"^ +(\d)  +([\d.]+)s  +([\d.]+)s  +([\d.]+)s  +([\d.]+)  ([\d.]+)$", told, re.M)
    assert [row[0] for row in rows] == ["1", "2"], told
    assert re.search(r"^peak memory: \d", told, re.M)
    log = read_lines(tmp_path / "run/log.jsonl")
    for row, figures in zip(rows, log, strict=True):
        assert sum(map(float, row[1:4])) == pytest.approx(figures["seconds/step"], abs=0.02)
        assert figures["seconds/generate"] > 0
    assert any(figures["parse_rate"] > 0 for figures in log)  # plans were written, and run
    assert sum(figures["calls"] for figures in log) > 0


def test_phases_are_parts_of_the_step():
    figures = {"seconds/step": 10.0, "seconds/generate": 4.0, "seconds/workers": 1.0}
    assert gpu_smoke.phases(figures) == {"generate": 4.0, "workers": 1.0, "train": 5.0}


def test_without_a_gpu_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(gpu_smoke, "_has_gpu", lambda: False)
    assert gpu_smoke.main([]) == 2
    assert capsys.readouterr().err == (
        "there is no GPU here that torch can use; --size tiny does the same on the CPU\n"
    )


@pytest.mark.parametrize("steps", ["0", "-1", "1.5", "x"])
def test_steps_that_are_no_count(steps, capsys):
    with pytest.raises(SystemExit) as ended:
        gpu_smoke.main(["--size", "tiny", "--steps", steps])
    assert ended.value.code == 2
    assert f"argument --steps: {steps!r} is no count of at least 1" in capsys.readouterr().err


def test_the_full_model_has_half_a_billion_parameters():
    from training.scratch import make_model, make_tokenizer

    tokenizer = make_tokenizer(["a"], 300)
    with torch.device("meta"):
        model = make_model(gpu_smoke.SIZES["full"], tokenizer, seed=0)
    assert 0.4e9 < sum(parameter.numel() for parameter in model.parameters()) < 0.6e9
