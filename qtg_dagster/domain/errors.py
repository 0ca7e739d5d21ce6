"""Every error QTG raises on purpose.

QtgError
├── InvalidInput            bad input at an edge; names the field and the fix
│   ├── RiskControlViolated     the input breaks a limit of the template
│   └── PlanInvalid             a template is not a well-formed DAG
├── NotFound                no such request, node, template, executor
├── Conflict                well-formed, but not now: already decided, other body under one key
├── ApprovalExpired         the decision came too late
├── IllegalMove             a state change that the table of moves does not have
├── PlanDrift               what would run is not what was approved
├── ConfigRefResolutionError    a $ref names a value that no completed node has
├── SigningRefused          the signer will not sign this
├── RemoteFault             a service of ours did not answer as the protocol says; raised where nothing was risked
├── RequestRefused          a service of ours does not let a request in
├── StaleClaim              this process no longer owns the node it works on
└── ConfigurationError      settings, inventory, database or registry are not fit to start
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class QtgError(Exception):
    """Base of all errors that QTG raises on purpose."""


class InvalidInput(QtgError):
    """Input refused at an edge.

    `field` is the path of the offending value, `problem` what is wrong with it, `fix` what to give instead.
    """

    def __init__(self, field: str, problem: str, fix: str) -> None:
        super().__init__(f"{field}: {problem}. {fix}")
        self.field = field
        self.problem = problem
        self.fix = fix


class RiskControlViolated(InvalidInput):
    """The movement breaks a hard cap, a fee ceiling or the destination allowlist of its template."""


class PlanInvalid(InvalidInput):
    """A template that is not a well-formed DAG of known actions."""


class NotFound(QtgError):
    """The thing named does not exist."""


class Conflict(QtgError):
    """The request is well-formed but contradicts what is already recorded."""


class ApprovalExpired(QtgError):
    """The approval window of a movement request or a template proposal has closed."""


class IllegalMove(QtgError):
    """A state change that the table in `domain.states` does not have."""


class PlanDrift(QtgError):
    """The plan that would run differs from the plan that was approved."""


class ConfigRefResolutionError(QtgError):
    """A `$ref:node_key.field` that no completed node can answer."""


class SigningRefused(QtgError):
    """A signer refuses: payload, intent and policy do not agree."""


class RemoteFault(QtgError):
    """A remote executor's or signer's answer was lost, or cannot be believed.

    `code` says how, `evidence` what was seen; nothing of it is secret. `nothing_done` = proven to have had no effect.
    """

    def __init__(self, code: str, message: str, evidence: Mapping[str, Any], *, nothing_done: bool = False) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.nothing_done = nothing_done
        self.problem = message
        self.evidence = dict(evidence)


class RequestRefused(QtgError):
    """A request that a service does not work on, by `code`; nothing was done."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class StaleClaim(QtgError):
    """The node was taken over by another runner; this process must not write to it any more."""


class ConfigurationError(QtgError):
    """QTG cannot start like this; the message says what to change."""
