"""Sections of settings as pydantic models: base class, error messages, and the list of settings.

A field has its type, range, default and help (``Field(description=...)``). This module imports
pydantic, which takes 0.2 s, so import it only where settings are read.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple, Self, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import core_schema

from omkl.utils.constraints import is_writable, no_such_key, shown


class Section(BaseModel):
    """Group of settings. It cannot be changed, and values of a wrong type are not converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    def replaced(self, **values: Any) -> Self:
        """Return a copy with other values, without checking them."""
        return self.model_copy(update=values)


Model = TypeVar("Model", bound=Section)


@dataclasses.dataclass(frozen=True)
class Accepted:
    """Condition on a value: ``Annotated[Any, Accepted(test, "possible values in words")]``."""

    holds: Callable[[Any], bool]
    words: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {"title": self.words}

    def _checked(self, value: Any) -> Any:
        if not self.holds(value):
            raise ValueError(self.words)
        return value


def _is_writable(value: Any) -> bool:
    try:
        written = json.dumps(value, ensure_ascii=False, sort_keys=True)
    except (ValueError, TypeError, RecursionError):  # ValueError: a number of thousands of digits
        return False
    return is_writable(written) and "\\u0000" not in written


# Any value, and any mapping, that a YAML file can contain. The code that uses them checks more.
Writable = Annotated[Any, Accepted(_is_writable, "a value that a file can hold")]
Content = Annotated[
    dict[str, Any], Accepted(_is_writable, "a mapping of settings that a file can hold")
]


def read(model: type[Model], content: Any, where: str = "") -> Model:
    """Return typed settings.

    Parameters
    ----------
    model
        Model of the section.
    content
        Mapping of a YAML file or a command line.
    where
        Name of the section in errors; "" for a whole configuration.

    Raises
    ------
    ValueError
        Names the first wrong setting and its possible values, or the closest name.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise ValueError(_explained(model, content, where, error.errors()[0])) from None


def _explained(model: type[Section], content: Any, where: str, error: Any) -> str:
    """Return pydantic's first error as a sentence that names the wrong setting."""
    field: Any = None
    keys = [where] if where else []
    for part in error["loc"]:
        section = _section_of(field) if field is not None else model
        if section is None:
            break
        if error["type"] == "extra_forbidden" and part not in section.model_fields:
            return no_such_key("".join(f"{key}." for key in keys), part, section.model_fields)
        field = section.model_fields.get(part, _FURTHER)
        keys.append(str(part))
        content = content.get(part) if isinstance(content, Mapping) else None
    if field is None:
        return f"{where or 'the configuration'}={shown(content)} is not a mapping of settings"
    key = ".".join(keys)
    if error["type"] == "missing":
        return f"{key} is missing; it is {words(field)}"
    may_be = words(field)
    verb = f"is none of {rest}" if (rest := may_be.removeprefix("one of ")) != may_be else ""
    return f"{key}={shown(content)} {verb or f'is not {may_be}'}"


def _section_of(field: Any) -> type[Section] | None:
    """Return the model of a field whose value is a section or null; None for other fields."""
    kinds = [field.annotation, *getattr(field.annotation, "__args__", ())]
    return next((k for k in kinds if isinstance(k, type) and issubclass(k, Section)), None)


_FURTHER = FieldInfo.from_annotation(Writable)  # an extra key, in a section that allows them


class Row(NamedTuple):
    """Setting in the list of settings: dotted key, default, help and possible values."""

    key: str
    default: Any
    help: str
    words: str


def rows(model: type[Section], prefix: str = "") -> Iterator[Row]:
    """Yield all settings that have a help text, in a model and in its sections."""
    for name, field in model.model_fields.items():
        if field.description is not None:
            yield Row(f"{prefix}{name}", field.default, field.description, words(field))
        elif (section := _section_of(field)) is not None:
            yield from rows(section, f"{prefix}{name}.")


def words(field: Any) -> str:
    """Return the possible values of a field, in words."""
    if _section_of(field) is not None:
        return "a mapping of settings"
    return _words(TypeAdapter(Annotated[field.annotation, *field.metadata, None]).json_schema())


def _words(schema: Mapping[str, Any]) -> str:
    """Return the values that a JSON schema allows, in words."""
    if "title" in schema:
        return str(schema["title"])
    if "anyOf" in schema:
        return ", or ".join(map(_words, schema["anyOf"]))
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    if "const" in schema:
        return str(schema["const"])
    kind = schema["type"]
    if kind in ("null", "boolean"):
        return "null" if kind == "null" else "true or false"
    noun, form = ("a whole number", ",") if kind == "integer" else ("a number", "g")
    bounds = [f"{word} {schema[key]:{form}}" for key, word in _BOUNDS.items() if key in schema]
    return f"{noun} {', and '.join(bounds)}".strip()


_BOUNDS = {
    "minimum": "of at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}
