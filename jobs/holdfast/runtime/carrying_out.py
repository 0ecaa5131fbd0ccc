"""Carries out orders of the control topic that take a while, in a thread beside the batches."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from holdfast.errors import HoldfastError
from holdfast.runtime.queries.query_run import QueryRun
from holdfast.state.topics.orders import Answer

__all__ = ["CarriesOut", "InHand"]

_LOG = logging.getLogger(__name__)
_PUBLISH_AGAIN_S = 10.0  # the main loop has other work


class _HasToken(Protocol):
    @property
    def token(self) -> str: ...


_Order = TypeVar("_Order", bound=_HasToken)


@dataclass
class InHand(Generic[_Order]):
    """An order that is being carried out; the thread writes, the main loop reads.

    Attributes:
        name: what it is about: the name of a savepoint, the id of a query.
    """

    name: str
    order: _Order
    told: Answer
    published: Answer | None = None

    def does(self, what: str) -> None:
        """Tells what is being done, in words."""
        self.told = replace(self.told, doing=what)


class CarriesOut(ABC, Generic[_Order]):
    """Owns the thread that carries out orders of one kind, one after the other."""

    def __init__(self, kind: str) -> None:
        """Begins nothing before `look`; `kind` is for people."""
        self._kind = kind
        self._in_hand: InHand[_Order] | None = None
        self._publish_at = 0.0

    @abstractmethod
    def _orders(self, runs: Sequence[QueryRun]) -> Mapping[str, _Order]:
        """The orders there are, by name."""

    @abstractmethod
    def _answers(self) -> Mapping[str, Answer]:
        """The answers there are, by name."""

    @abstractmethod
    def _tell(self, name: str, answer: Answer) -> None:
        """Publishes an answer.

        Raises:
            HoldfastError: it may not be published.
        """

    @abstractmethod
    def _carry_out(self, in_hand: InHand[_Order], runs: Sequence[QueryRun]) -> None:
        """Carries out an order, in the thread.

        Raises:
            HoldfastError: it is not carried out.
        """

    def look(self, runs: Sequence[QueryRun]) -> None:
        """Called on every iteration of the main loop, after the orders have been read."""
        if self._in_hand is None:
            self._begin(runs)
        if self._in_hand is not None and time.monotonic() >= self._publish_at:
            self._publish(self._in_hand)

    def _begin(self, runs: Sequence[QueryRun]) -> None:
        answers = self._answers()
        for name, order in self._orders(runs).items():
            known = answers.get(name)
            if known is not None and known.token == order.token and not known.doing:
                continue
            self._in_hand = InHand(name, order, Answer(order.token, "beginning"))
            work = threading.Thread(
                target=self._run, args=(self._in_hand, tuple(runs)), name=self._kind, daemon=True
            )
            work.start()
            return

    def _publish(self, in_hand: InHand[_Order]) -> None:
        told = in_hand.told
        if told != in_hand.published:
            try:
                self._tell(in_hand.name, told)
            except HoldfastError as error:
                _LOG.warning(
                    "Nobody learns of the %s %s yet: %s", self._kind, in_hand.name, error.fact
                )
                self._publish_at = time.monotonic() + _PUBLISH_AGAIN_S
                return
            in_hand.published = told
        if not told.doing:
            self._in_hand = None

    def _run(self, in_hand: InHand[_Order], runs: Sequence[QueryRun]) -> None:
        token = in_hand.order.token
        try:
            self._carry_out(in_hand, runs)
            in_hand.told = Answer(token)
        except HoldfastError as error:
            _LOG.warning("The %s %s has failed: %s", self._kind, in_hand.name, error)
            in_hand.told = Answer(token, "", error.fact, error.cause, error.action)
        except Exception as error:  # noqa: BLE001 - whoever waits for it learns of it
            _LOG.exception("The %s %s has failed", self._kind, in_hand.name)
            in_hand.told = Answer(token, "", f"{type(error).__name__}: {error}")
