"""The Prefect block `ConductorPool`: a pool that deployments on any machine can name.

Registered through the entry point `prefect.collections`, so this module must import in milliseconds more
than Prefect itself.
"""

from typing import Any

from prefect.blocks.core import Block
from pydantic import Field, field_validator

from conductor_plugin.errors import PoolError
from conductor_plugin.pool import Pool, load_pool, pool_from

BLOCK_PREFIX = "block/"
# One of Prefect's own block logos; this project has none yet.
LOGO = (
    "https://raw.githubusercontent.com/PrefectHQ/prefect/420d0d6a78bb6df1fc18bcf188fdad43c1d22ea9"
    "/assets/block-logos/process.png"
)


class ConductorPool(Block):
    """The workers that the flow `conductor` may use, in the format of a pool file.

    Attributes:
        content: What a pool file holds, as a mapping: `workers`, and optionally `labels` and `planner`.

    Example:
        ```python
        from conductor_plugin import ConductorPool

        ConductorPool.from_file("pool.yaml").save("BLOCK_NAME")
        pool = ConductorPool.load("BLOCK_NAME")
        # prefect deployment run conductor/answer --param question="…" --param pool=block/BLOCK_NAME
        ```
    """

    _block_type_name = "Conductor Pool"
    _block_type_slug = "conductor-pool"
    _logo_url = LOGO  # type: ignore[assignment]
    _documentation_url = "https://pypi.org/project/prefect-conductor/"  # type: ignore[assignment]
    _description = "The ordered models and tools that a question may use, in the format of a pool file."

    content: dict[str, Any] = Field(
        default=..., description="A pool file's content: workers, and optionally labels and planner."
    )

    @field_validator("content")
    @classmethod
    def _valid(cls, content: dict[str, Any]) -> dict[str, Any]:
        try:
            pool_from(content, source="the block's content")
        except PoolError as error:
            raise ValueError(str(error)) from None
        return content

    @classmethod
    def from_file(cls, path: str) -> "ConductorPool":
        """A block with the content of a pool file. PoolError if the file breaks a rule."""
        return cls(content=load_pool(path).model_dump(mode="json", exclude_defaults=True))

    def pool(self) -> Pool:
        """The pool itself."""
        return pool_from(self.content, source=f"block {self._block_document_name or 'without a name'}")


async def resolve_pool(pool: str | dict[str, Any] | None) -> Pool:
    """A pool from what a flow parameter may hold: None, a path, `block/NAME`, or a pool file's content."""
    if isinstance(pool, dict):
        return pool_from(pool, source="the parameter `pool`")
    if isinstance(pool, str) and pool.startswith(BLOCK_PREFIX):
        name = pool.removeprefix(BLOCK_PREFIX)
        try:
            block: Any = await ConductorPool.aload(name)
        except ValueError:
            raise PoolError(
                f"there is no Conductor Pool block named {name!r}; save one with ConductorPool(…).save({name!r})",
                code="pool_unreadable",
            ) from None
        found: Pool = block.pool()
        return found
    return load_pool(pool)
