"""A choice of which one value is built: the others are known and refused, never accepted and ignored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True, slots=True)
class Only:
    """Annotation of a key. `later` are the values still to come."""

    built: str
    later: tuple[str, ...]

    def check(self, value: Any) -> str:
        if value == self.built:
            return self.built
        if value in self.later:
            raise ValueError(f"{value} is not built yet, only {self.built} is")
        known = ", ".join((self.built, *self.later))
        raise ValueError(f"{value!r} is not one of {known} (only {self.built} is built yet)")

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "const": self.built}
