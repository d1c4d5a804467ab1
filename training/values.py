"""What single values of a training configuration may be; a whole number is no yes, and no text."""

from typing import Annotated

from pydantic import Field

from conductor_plugin.pool_values import Whole

Count = Annotated[Whole, Field(ge=1)]
Flag = Annotated[bool, Field(strict=True)]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
