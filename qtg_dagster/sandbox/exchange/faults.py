"""Faults on order: which request they hit, and what happens to it and to its answer."""

from __future__ import annotations

from enum import StrEnum
from itertools import count
from typing import Literal, Self

from pydantic import Field, model_validator

from qtg_dagster.domain.plans import Frozen
from qtg_dagster.sandbox.exchange.deposits import DepositStatus
from qtg_dagster.sandbox.exchange.dialect import HISTORIES, Role
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalStatus


class FaultKind(StrEnum):
    """What goes wrong. Unless `executes` says otherwise, each executes the request as its name or docs imply."""

    LOSE_REPLY_AFTER_EXECUTION = "lose_reply_after_execution"
    LOSE_REPLY_BEFORE_EXECUTION = "lose_reply_before_execution"
    EXECUTE_THEN_500 = "execute_then_500"
    HTTP_524_HTML = "http_524_html"
    OK_HTML_200 = "ok_html_200"
    EMPTY_200 = "empty_200"
    TRUNCATED_BODY = "truncated_body"
    BAD_GZIP = "bad_gzip"
    REDIRECT_307 = "redirect_307"
    DELAY_SECONDS = "delay_seconds"
    DELAY_EXECUTION = "delay_execution"
    LATE_EXECUTION = "late_execution"
    REPLY = "reply"
    DUPLICATE_REQUEST = "duplicate_request"
    EARLIER_REPLY = "earlier_reply"
    STATUS_ROLLBACK = "status_rollback"
    PAGING_SHIFT = "paging_shift"


_DOES_NOT_EXECUTE = (FaultKind.LOSE_REPLY_BEFORE_EXECUTION, FaultKind.REDIRECT_307, FaultKind.REPLY)
_OF_HISTORIES = (FaultKind.STATUS_ROLLBACK, FaultKind.PAGING_SHIFT)


class Fault(Frozen):
    """An order to misbehave: let `skip` matching requests pass, then hit the next `times`.

    `delay_seconds` executes at once and answers late; `delay_execution` executes and answers late;
    `late_execution` drops the connection at once and executes late, unless the process ends first; key, signature
    and clock are judged on arrival. `reply` sends the text given. `duplicate_request` brings the same bytes twice
    behind the client's back, which gets the answer to one of them. `earlier_reply` answers with what this endpoint
    answered to the request before, and waits until there is one. `status_rollback` shows rows of a history in another
    status, `paging_shift` adds `rows` newer ones to it before this page is read.
    """

    kind: FaultKind
    venue: str = Field(default="*", description="venue key, or * for any")
    endpoint: str = Field(default="*", description='path below the venue, a role such as "withdrawals", or * for any')
    skip: int = Field(default=0, ge=0)
    times: int = Field(default=1, ge=1)
    executes: bool | None = Field(default=None, description="null = as the kind does")
    seconds: float = Field(default=0, ge=0, le=3600)
    status: int = Field(default=200, ge=200, le=599)
    body: str = ""
    content_type: str = "application/json;charset=UTF-8"
    headers: dict[str, str] = Field(default_factory=dict, description='e.g. {"retry-after": "30"}')
    location: str | None = Field(default=None, description="target of a redirect; null = the same path again")
    answered: Literal["first", "second"] = Field(default="second", description="which of two equal requests")
    rows: int = Field(default=1, ge=1, le=1000, description="rows that shift the pages")
    row: str | None = Field(default=None, description="id of the row that is rolled back; null = all of the page")
    to_status: str | None = Field(
        default=None, description='the status it shows, e.g. "processing" or "failure"; null = one step back'
    )

    @model_validator(mode="after")
    def _is_about_a_history(self) -> Self:
        if self.kind in _OF_HISTORIES and self.endpoint not in HISTORIES:
            raise ValueError(f"{self.kind}: give endpoint as withdrawals or deposits")
        if self.to_status is not None:
            status_number(Role(self.endpoint), self.to_status)
        return self

    @property
    def does_execute(self) -> bool:
        """Whether the request still takes effect."""
        return self.kind not in _DOES_NOT_EXECUTE if self.executes is None else self.executes

    def concerns(self, venue: str, endpoint: str, roles: tuple[Role, ...], answered_before: bool) -> bool:
        """Whether a request to an endpoint with these roles is one that the fault may hit."""
        if self.kind is FaultKind.EARLIER_REPLY and not answered_before:
            return False
        return self.venue in ("*", venue) and self.endpoint in ("*", endpoint, *roles)


def status_number(history: Role, name: str) -> int:
    """A status of a history by its name in the ledger; raises `ValueError`."""
    names = DepositStatus if history is Role.DEPOSITS else WithdrawalStatus
    if name.upper() not in names.__members__:
        raise ValueError(f"status: {name!r} is none of {', '.join(names.__members__).lower()}")
    return int(names[name.upper()])


class FaultQueue:
    """Faults in the order they were asked for; each request takes at most one."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._waiting: dict[int, Fault] = {}

    def add(self, fault: Fault) -> int:
        """Order a fault; returns its number."""
        number = next(self._ids)
        self._waiting[number] = fault
        return number

    def take(
        self, venue: str, endpoint: str, roles: tuple[Role, ...] = (), *, answered_before: bool = False
    ) -> Fault | None:
        """The fault that hits this request, if any; counts the request for every fault it passes."""
        for number, fault in list(self._waiting.items()):
            if not fault.concerns(venue, endpoint, roles, answered_before):
                continue
            if fault.skip:
                self._waiting[number] = fault.model_copy(update={"skip": fault.skip - 1})
                continue
            if fault.times == 1:
                del self._waiting[number]
            else:
                self._waiting[number] = fault.model_copy(update={"times": fault.times - 1})
            return fault
        return None

    def waiting(self) -> dict[int, Fault]:
        """Faults that have not hit all their requests yet."""
        return dict(self._waiting)

    def clear(self) -> None:
        """Forget all."""
        self._waiting.clear()
