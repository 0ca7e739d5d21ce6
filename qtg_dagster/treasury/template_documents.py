"""Templates as the documents that people write and read: YAML, of which JSON is a part."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.plans import Plan


def read_plan(document: str, *, field: str = "document") -> Plan:
    """The template that a document holds; raises `InvalidInput` for the first wrong field."""
    import yaml

    try:
        return Plan.model_validate(_load(document, field))
    except yaml.YAMLError as error:
        raise InvalidInput(field, f"is neither YAML nor JSON: {error}", "Correct it and give it again.") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in (field, *first["loc"]))
        raise InvalidInput(where, str(first["msg"]), "Correct it and give it again.") from None


def write_plan(plan: Plan) -> str:
    """The template as a document that `read_plan` reads as the same plan, without what is as it is by itself."""
    import yaml

    document = plan.model_dump(mode="json", exclude_defaults=True)
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


def _load(document: str, field: str) -> Any:
    """As YAML has it, but a key that stands twice is refused: the last one would silently win."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Refuses doubled keys."""

    def mapping(loader: Loader, node: yaml.MappingNode) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key, line = loader.construct_object(key_node, deep=True), key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise InvalidInput(field, f"line {line}: the key {key!r} is not text", "Put it into quotes.")
            if key in seen:
                raise InvalidInput(field, f"line {line}: {key!r} stands twice in one place", "Keep one of them.")
            seen.add(key)
        return dict(loader.construct_pairs(node, deep=True))

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    return yaml.load(document, Loader)  # noqa: S506 - a safe loader
