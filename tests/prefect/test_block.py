"""The block ConductorPool: Prefect's own standard suite, the entry point, saving and using one."""

from importlib.metadata import entry_points

import pytest
from prefect.client.orchestration import get_client
from prefect.testing.standard_test_suites.blocks import BlockStandardTestSuite
from pydantic import ValidationError

from conductor_plugin import ConductorPool
from conductor_plugin.on_prefect.blocks import resolve_pool
from conductor_plugin.on_prefect.flow import conductor
from conductor_plugin.pool import load_pool

CONTENT = {"workers": [{"name": "a", "kind": "tests.unit.workbench:ok"}]}


class TestConductorPool(BlockStandardTestSuite):
    @pytest.fixture
    def block(self):
        return ConductorPool

    def test_has_a_valid_image(self, block):
        """Prefect's suite fetches the image; tests here reach no network, so the address alone is checked."""
        assert str(block._logo_url).startswith("https://")


def test_the_entry_point_names_the_module_of_the_block():
    (entry,) = [e for e in entry_points(group="prefect.collections") if e.name == "conductor_plugin"]
    assert entry.load().ConductorPool is ConductorPool


@pytest.mark.prefect
@pytest.mark.postgres
async def test_a_server_registers_the_block_by_itself(prefect_postgres):
    with prefect_postgres.use():
        async with get_client() as client:
            block_type = await client.read_block_type_by_slug("conductor-pool")
    assert block_type.name == "Conductor Pool"
    assert block_type.description


@pytest.mark.prefect
async def test_a_saved_block_is_a_pool_for_the_flow(prefect_sqlite):
    await ConductorPool(content=CONTENT).save("team", overwrite=True)
    answer = await conductor("q", pool="block/team", planner="template:solve")
    assert answer.answer == "ok"


def test_a_block_holds_what_a_pool_file_holds(tmp_path):
    path = tmp_path / "pool.yaml"
    path.write_text(
        "labels: [a, b]\nworkers: [{name: x, kind: llm, model: openai/m, tags: [t], price: {input: 1, output: 2}}]"
    )
    assert ConductorPool.from_file(str(path)).pool() == load_pool(path)


def test_a_block_with_bad_content_says_what_is_wrong():
    with pytest.raises(ValidationError, match="kind 'nope' is unknown"):
        ConductorPool(content={"workers": [{"name": "a", "kind": "nope"}]})


async def test_a_flow_takes_a_pools_content_too():
    assert (await resolve_pool(CONTENT)).workers[0].name == "a"
