"""What a caller asks for, validated at the edge."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import Field, StringConstraints, ValidationError

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.domain.canonical import digest, json_problem
from qtg_dagster.domain.chains import evm_address
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.plans import Frozen, ParameterSpec, ParameterType, Plan, split_reference
from qtg_dagster.domain.refs import resolve_config
from qtg_dagster.domain.risk import check_amount, check_destination
from qtg_dagster.inventory import Inventory

Order = TypeVar("Order", bound=Frozen)
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True)]


class MovementOrder(Frozen):
    """A movement to create: which template, with which values, asked for by whom."""

    template_key: Name
    template_version: int | None = Field(default=None, ge=1, description="null = the newest")
    parameters: dict[str, str] = Field(default_factory=dict)
    bindings: dict[str, str] = Field(default_factory=dict, description="signer role -> signer key")
    requested_by: Name
    reason: str = Field(default="", max_length=2000)
    idempotency_key: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    callback_url: str | None = Field(default=None, pattern=r"^https?://")
    approval_ttl_seconds: int | None = Field(default=None, ge=1, le=30 * 86400)

    @classmethod
    def read(cls, document: Any) -> MovementOrder:
        """Validate a document; raises `InvalidInput` for the first wrong field."""
        return read_order(cls, document)

    def body_hash(self) -> str:
        """Identity of what is ordered: under one idempotency key there is only one."""
        return digest("qtg.order.v1", self.model_dump(mode="json", exclude={"idempotency_key"}))


def read_order(kind: type[Order], document: Any) -> Order:
    """Validate what a caller asks for; raises `InvalidInput` for the first wrong field."""
    try:
        order = kind.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "order"
        raise InvalidInput(field, str(first["msg"]), f"Got {first['input']!r}; correct it and send again.") from None
    for field, value in order.model_dump().items():
        problem = json_problem(value)
        if problem:
            raise InvalidInput(field, f"holds {problem}", "Give plain text.")
    return order


class MovementReceipt(Frozen):
    """What the caller holds after creation."""

    request_id: str
    created: bool = Field(description="false: this order stood already under its idempotency key")
    template_version: int
    compiled_plan_hash: str
    approval_digest: str
    expires_at: datetime | None = None
    unwell: dict[str, str] = Field(
        default_factory=dict, description="executors and signers it needs that are down or unknown at this moment"
    )


def read_parameters(plan: Plan, given: dict[str, str], inventory: Inventory) -> dict[str, str]:
    """The template's parameters in canonical text; raises `InvalidInput` for missing, unknown and malformed ones."""
    declared = {parameter.name: parameter for parameter in plan.parameters}
    for name in given:
        if name not in declared:
            raise InvalidInput(
                f"parameters.{name}",
                f"template {plan.template_key} has no such parameter",
                f"Use {', '.join(declared) or 'none'}.",
            )
    values: dict[str, str] = {}
    for name, parameter in declared.items():
        if given.get(name, "") == "":
            raise InvalidInput(f"parameters.{name}", "is missing", f"Give {parameter.description or parameter.type}.")
        values[name] = _read_parameter(plan, parameter, given[name], inventory)
    return values


def _read_parameter(plan: Plan, parameter: ParameterSpec, text: str, inventory: Inventory) -> str:
    field = f"parameters.{parameter.name}"
    match parameter.type:
        case ParameterType.AMOUNT:
            asset = inventory.asset(parameter.asset or "", field=f"{field}.asset")
            amount = Amount.parse(asset, text, field=field)
            check_amount(plan.risk_controls, amount, field=field)
            return amount.to_text()
        case ParameterType.ADDRESS:
            return evm_address(text, field=field)
        case ParameterType.TEXT:
            return text


def read_intent(plan: Plan, order: MovementOrder, values: dict[str, str]) -> dict[str, str]:
    """The movement in one breath: what, how much, where to, why."""
    amount = next((p for p in plan.parameters if p.type is ParameterType.AMOUNT), None)
    intent = {"template_key": plan.template_key, "reason": order.reason}
    if amount is not None:
        intent |= {"asset": str(amount.asset), "amount": values[amount.name]}
    destinations = [node.config["destination"] for node in plan.nodes if "destination" in node.config]
    if destinations:
        last = str(destinations[-1])
        kind, target = split_reference(last)
        intent["destination"] = values.get(target, last) if kind == "param" else last
    return intent


def static_config(plan: Plan, node_key: str, intent: dict[str, str], values: dict[str, str]) -> dict[str, Any]:
    """A node's config with all but its `$ref` values filled in."""
    config = plan.node(node_key).config
    later = {name: value for name, value in config.items() if split_reference(value)[0] == "ref"}
    known = {name: value for name, value in config.items() if name not in later}
    return {**resolve_config(known, intent=intent, input_params=values, completed_refs={}), **later}


def check_static_limits(plan: Plan, configs: dict[str, dict[str, Any]]) -> None:
    """Raise `RiskControlViolated` for a destination that is known now and not allowed."""
    for key, config in configs.items():
        destination = config.get("destination")
        if isinstance(destination, str) and split_reference(destination)[0] != "ref":
            field = f"nodes.{key}.config.destination"
            kind, target = split_reference(plan.node(key).config["destination"])
            check_destination(
                plan.risk_controls, destination, field=f"parameters.{target}" if kind == "param" else field
            )
