"""Matching bytes in one pass, however a pattern is written.

A regular expression of Python's tries every way in which its stars could share a name: nine of them take hours over
one long name, and anybody may put a pattern into an ignore file. This follows all ways at once, and remembers for each
set of them where a byte leads.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

MOST_REMEMBERED = 20_000  # steps; then it forgets them all


@dataclass(frozen=True)
class One:
    """One byte out of a set, written as a regular expression."""

    of: bytes


@dataclass(frozen=True)
class Many:
    """Any number of bytes out of a set."""

    of: bytes


@dataclass(frozen=True)
class Either:
    branches: tuple[tuple["Token", ...], ...]


Token = One | Many | Either


def expression(tokens: Sequence[Token]) -> bytes:
    """The same as a regular expression."""
    return b"".join(map(_expression, tokens))


def _expression(token: Token) -> bytes:
    match token:
        case One(of):
            return of
        case Many(of):
            return of + b"*"
        case Either(branches):
            return b"(?:" + b"|".join(map(expression, branches)) + b")"


class Automaton:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self._steps: list[tuple[frozenset[int], int]] = []  # of each state: on which bytes, to which state
        self._free: list[list[int]] = []  # states that it leads to without any byte
        self._end = self._state()
        self._start = self._closed({self._built(tokens, self._end)})
        self._known: dict[tuple[frozenset[int], int], frozenset[int]] = {}

    def matches(self, text: bytes) -> bool:
        known, states = self._known, self._start
        for byte in text:
            after = known.get((states, byte))
            if after is None:
                after = self._after(states, byte)
            if not after:
                return False
            states = after
        return self._end in states

    def _after(self, states: frozenset[int], byte: int) -> frozenset[int]:
        if len(self._known) > MOST_REMEMBERED:
            self._known.clear()
        after = self._closed({to for state in states for on, to in (self._steps[state],) if byte in on})
        self._known[states, byte] = after
        return after

    def _closed(self, states: set[int]) -> frozenset[int]:
        ahead = list(states)
        while ahead:
            for to in self._free[ahead.pop()]:
                if to not in states:
                    states.add(to)
                    ahead.append(to)
        return frozenset(states)

    def _state(self, on: frozenset[int] = frozenset(), to: int = 0) -> int:
        self._steps.append((on, to))
        self._free.append([])
        return len(self._steps) - 1

    def _built(self, tokens: Sequence[Token], end: int) -> int:
        """The state from which these tokens lead to `end`."""
        for token in reversed(tokens):
            match token:
                case One(of):
                    end = self._state(_bytes(of), end)
                case Many(of):
                    loop = self._state(_bytes(of), len(self._steps))
                    self._free[loop].append(end)
                    end = loop
                case Either(branches):
                    fork = self._state()
                    self._free[fork] += [self._built(branch, end) for branch in branches]
                    end = fork
        return end


@lru_cache(maxsize=1024)
def _bytes(of: bytes) -> frozenset[int]:
    one = re.compile(of, re.DOTALL)
    return frozenset(byte for byte in range(256) if one.fullmatch(bytes([byte])))
