"""The run's page in the Prefect UI, seen with a real browser."""

import pytest

from conductor_plugin.on_prefect.flow import conductor
from conductor_plugin.on_prefect.history import whole_history
from tests.browser import browser

pytestmark = [pytest.mark.prefect, pytest.mark.postgres, pytest.mark.browser]

PLAN = """model_id = [1, 0]
subtasks = ["What is the gcd of 462 and 1071?", "Square the result of step 0."]
access_list = [[], [0]]"""
TOOLS = {"workers": [{"name": name, "kind": name} for name in ("calculator", "number", "text")]}


async def test_the_page_of_a_run_names_its_steps(prefect_postgres, tmp_path):
    with prefect_postgres.use():
        async with whole_history():
            answer = await conductor("Take the gcd of 462 and 1071 and square it.", pool=TOOLS, plan=PLAN)
    assert answer.answer == "441"
    with browser() as page:
        page.open(f"{prefect_postgres.ui_url}/runs/flow-run/{answer.flow_run_id}")
        page.wait("document.body.innerText.includes('Task Runs')")
        page.click(text="Task Runs")
        for name in ("plan", "step-0 · number", "step-1 · calculator"):
            page.wait(f"document.body.innerText.includes({name!r})")
        page.screenshot(tmp_path / "run.png")
    assert (tmp_path / "run.png").stat().st_size > 20_000
