"""Match bytes in linear time, whatever the pattern.

Python's regular expressions backtrack: nine stars can take hours on one long name, and anybody may put such a pattern
into an ignore file. This automaton follows all alternatives at once, and caches its transitions.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

MAX_CACHED_TRANSITIONS = 20_000  # then the cache is cleared


@dataclass(frozen=True)
class ByteClass:
    """One byte from a set, written as a regular expression."""

    pattern: bytes


@dataclass(frozen=True)
class RepeatedByteClass:
    """Any number of bytes from a set."""

    pattern: bytes


@dataclass(frozen=True)
class Alternatives:
    branches: tuple[tuple["GlobToken", ...], ...]


GlobToken = ByteClass | RepeatedByteClass | Alternatives


def to_regex(tokens: Sequence[GlobToken]) -> bytes:
    """The tokens as a regular expression."""
    return b"".join(map(_token_to_regex, tokens))


def _token_to_regex(token: GlobToken) -> bytes:
    match token:
        case ByteClass(pattern):
            return pattern
        case RepeatedByteClass(pattern):
            return pattern + b"*"
        case Alternatives(branches):
            return b"(?:" + b"|".join(map(to_regex, branches)) + b")"


class Automaton:
    def __init__(self, tokens: Sequence[GlobToken]) -> None:
        self._transitions: list[tuple[frozenset[int], int]] = []  # per state: bytes that lead on, and the next state
        self._epsilon_moves: list[list[int]] = []  # per state: states reached without consuming a byte
        self._end = self._add_state()
        self._start = self._close_over_epsilon({self._build(tokens, self._end)})
        self._transition_cache: dict[tuple[frozenset[int], int], frozenset[int]] = {}

    def matches(self, text: bytes) -> bool:
        cache, states = self._transition_cache, self._start
        for byte in text:
            next_states = cache.get((states, byte))
            if next_states is None:
                next_states = self._compute_next_states(states, byte)
            if not next_states:
                return False
            states = next_states
        return self._end in states

    def _compute_next_states(self, states: frozenset[int], byte: int) -> frozenset[int]:
        if len(self._transition_cache) > MAX_CACHED_TRANSITIONS:
            self._transition_cache.clear()
        next_states = self._close_over_epsilon(
            {to for state in states for on, to in (self._transitions[state],) if byte in on}
        )
        self._transition_cache[states, byte] = next_states
        return next_states

    def _close_over_epsilon(self, states: set[int]) -> frozenset[int]:
        pending = list(states)
        while pending:
            for to in self._epsilon_moves[pending.pop()]:
                if to not in states:
                    states.add(to)
                    pending.append(to)
        return frozenset(states)

    def _add_state(self, on_bytes: frozenset[int] = frozenset(), target: int = 0) -> int:
        self._transitions.append((on_bytes, target))
        self._epsilon_moves.append([])
        return len(self._transitions) - 1

    def _build(self, tokens: Sequence[GlobToken], end: int) -> int:
        """Add states that lead from the returned state through these tokens to `end`."""
        for token in reversed(tokens):
            match token:
                case ByteClass(pattern):
                    end = self._add_state(_expand_byte_class(pattern), end)
                case RepeatedByteClass(pattern):
                    loop = self._add_state(_expand_byte_class(pattern), len(self._transitions))
                    self._epsilon_moves[loop].append(end)
                    end = loop
                case Alternatives(branches):
                    fork = self._add_state()
                    self._epsilon_moves[fork] += [self._build(branch, end) for branch in branches]
                    end = fork
        return end


@lru_cache(maxsize=1024)
def _expand_byte_class(pattern: bytes) -> frozenset[int]:
    regex = re.compile(pattern, re.DOTALL)
    return frozenset(byte for byte in range(256) if regex.fullmatch(bytes([byte])))
