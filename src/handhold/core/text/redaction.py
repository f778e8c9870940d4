"""Redaction: replace known secrets in a byte stream by `[redacted: NAME]`, however the stream is chunked.

Each secret is searched as is, escaped (JSON, URL, HTML, shell), in hex and in base64. Color codes, line breaks and
spaces between its characters do not hide it. `docs/threat-model.md` lists what does: this prevents accidents.

The cost does not depend on the number of secrets: a few bytes are sampled from the stream at regular intervals and
looked up in a set.
"""

import json
import re
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from shlex import quote as shell_quote

from handhold.core.text.secrets import MIN_SECRET_CHARS, Secret

MAX_FORM_BYTES = 256  # longer secrets are searched in pieces of this length
GRAM_BYTES = 4  # fewer may be shown before it is known that they begin a secret
IGNORED_BYTES = b" \t\r\n\0"
_COLOR_CODE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]?)?")
_IGNORED_RUN = re.compile(rb"(?:\x1b(?:\[[0-?]*[ -/]*[@-~]?)?|[ \t\r\n\0])+")


@dataclass(frozen=True)
class _SecretForm:
    """One way in which a secret is printed. `flat` is the same without ignored bytes."""

    exact: bytes
    flat: bytes
    label: bytes
    matches_wrapped: bool  # also matches with whitespace inserted


class Redaction:
    """The searchable forms of some secrets. Any number of streams may share it.

    Every form has at least `_stride + GRAM_BYTES - 1` bytes. So it is enough to check every `_stride`-th gram:
    wherever a form occurs, one of them is among its first grams.
    """

    def __init__(self, secrets: Iterable[Secret]) -> None:
        forms = {
            form.flat: form for secret in secrets for form in _iter_forms(secret) if len(form.flat) >= MIN_SECRET_CHARS
        }
        self._stride = min(map(len, forms), default=MIN_SECRET_CHARS) - GRAM_BYTES + 1
        self._longest = max(map(len, forms), default=0)
        self._by_gram: defaultdict[int, list[tuple[int, _SecretForm]]] = defaultdict(list)
        self._by_prefix: defaultdict[bytes, list[bytes]] = defaultdict(list)
        for form in forms.values():
            for at in range(self._stride):
                self._by_gram[_gram_to_int(form.flat[at : at + GRAM_BYTES])].append((at, form))
            for size in range(1, GRAM_BYTES + 1):
                self._by_prefix[form.flat[:size]].append(form.flat)
        self._grams = frozenset(self._by_gram)

    def __bool__(self) -> bool:
        return bool(self._by_gram)

    def redact(self, text: str) -> str:
        """Redact a whole text."""
        if not self:
            return text
        data = text.encode("utf-8", "surrogatepass")
        spans = self.find(data, flatten(data))
        return _replace_spans(data, spans, 0, len(data)).decode("utf-8", "surrogatepass") if spans else text

    def find(self, data: bytes, flat: bytes) -> list[tuple[int, int, bytes]]:
        """Secrets in `data` as start, end and label, in order and without overlaps."""
        count = max(0, (len(flat) - GRAM_BYTES) // self._stride + 1)
        grams = bytearray(GRAM_BYTES * count)
        for at in range(GRAM_BYTES):
            grams[at::GRAM_BYTES] = flat[at : at + self._stride * (count - 1) + 1 : self._stride] if count else b""
        numbers = memoryview(grams).cast("I")
        if self._grams.isdisjoint(numbers):
            return []
        found = [
            (start, start + len(form.flat), form)
            for index, number in enumerate(numbers)
            if number in self._grams
            for offset, form in self._by_gram[number]
            if (start := index * self._stride - offset) >= 0 and flat.startswith(form.flat, start)
        ]
        return _merge_spans(_locate_spans(data, found)) if found else []

    def count_held_back(self, flat: bytes) -> int:
        """How many of the last bytes may be the beginning of a secret."""
        end = len(flat)
        for start in range(max(0, end - self._longest + 1), end):
            forms = self._by_prefix.get(flat[start : start + GRAM_BYTES])
            if forms and any(form.startswith(flat[start:]) for form in forms):
                return end - start
        return 0


class Redactor:
    """Redacts one stream. A possible beginning of a secret is held back until it is decided, except its first bytes."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._pending = b""
        self._pending_shown = 0  # bytes of the pending data that were already returned

    def feed(self, data: bytes) -> bytes:
        data = self._pending + data
        flat = flatten(data)
        spans = self._redaction.find(data, flat)
        after = spans[-1][1] if spans else 0
        held = self._redaction.count_held_back(flatten(data[after:]) if after else flat)
        cut = _find_tail_start(data, held) if held else len(data)
        through = max(self._pending_shown, len(data) if held < GRAM_BYTES else cut)
        out = _replace_spans(data, spans, self._pending_shown, through)
        self._pending, self._pending_shown = data[cut:], max(0, through - cut)
        return out

    def flush(self) -> bytes:
        """The data that was held back and did not become a secret."""
        rest, self._pending = self._pending[self._pending_shown :], b""
        self._pending_shown = 0
        return rest


def can_contain_secret(data: bytes) -> bool:
    """Whether a text is long enough for the shortest secret, in any form."""
    return len(flatten(data)) >= MIN_SECRET_CHARS


def flatten(data: bytes) -> bytes:
    """Remove color codes and whitespace."""
    return (_COLOR_CODE.sub(b"", data) if b"\x1b" in data else data).translate(None, IGNORED_BYTES)


def _gram_to_int(gram: bytes) -> int:
    return memoryview(gram).cast("I")[0]


def _map_offsets(data: bytes, offsets: Iterable[int]) -> dict[int, int]:
    """Map offsets in the flattened data to offsets in `data`."""
    origins: dict[int, int] = {}
    gaps = ((found.start(), found.end()) for found in _IGNORED_RUN.finditer(data))
    ignored, gap = 0, next(gaps, None)
    for offset in sorted(offsets):
        while gap and offset + ignored >= gap[0]:
            ignored += gap[1] - gap[0]
            gap = next(gaps, None)
        origins[offset] = offset + ignored
    return origins


def _find_tail_start(data: bytes, size: int) -> int:
    """The start of the last `size` bytes, counted after flattening. Inspects only the end of the data."""
    window = size + 64
    while (
        window < len(data) and len(flatten(data[-window:])) < size + MAX_FORM_BYTES
    ):  # it may begin within a color code
        window *= 2
    end = data[-window:]
    offset = len(flatten(end)) - size
    return len(data) - len(end) + _map_offsets(end, [offset])[offset]


def _locate_spans(data: bytes, found: list[tuple[int, int, _SecretForm]]) -> Iterator[tuple[int, int, bytes]]:
    origins = _map_offsets(data, {offset for start, end, _ in found for offset in (start, end - 1)})
    for flat_start, flat_end, form in found:
        start, end = origins[flat_start], origins[flat_end - 1] + 1
        if form.matches_wrapped or _COLOR_CODE.sub(b"", data[start:end]).replace(b"\0", b"") == form.exact:
            yield start, end, form.label


def _merge_spans(spans: Iterable[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
    """Sort and merge overlapping spans, under the name of the first and longest."""
    merged: list[tuple[int, int, bytes]] = []
    for start, end, label in sorted(spans, key=lambda each: (each[0], -each[1])):
        if merged and start < merged[-1][1]:
            first, last, name = merged[-1]
            merged[-1] = first, max(last, end), name
        else:
            merged.append((start, end, label))
    return merged


def _replace_spans(data: bytes, spans: list[tuple[int, int, bytes]], start: int, end: int) -> bytes:
    """The data from `start` to `end` with spans replaced. Color codes in a span are kept after its replacement."""
    if not spans:
        return data[start:end]
    pieces: list[bytes] = []
    at = start
    for begins, ends, label in spans:
        pieces += (data[at : max(at, begins)], label, *_COLOR_CODE.findall(data, begins, ends))
        at = ends
    return b"".join((*pieces, data[at:end]))


# --- forms of a secret


def _iter_forms(secret: Secret) -> Iterator[_SecretForm]:
    label = f"[redacted: {secret.name}]".encode("utf-8", "surrogateescape")
    data = secret.value.encode("utf-8", "surrogateescape")
    ends = (min(len(data), at + MAX_FORM_BYTES) for at in range(0, len(data), MAX_FORM_BYTES))
    for piece in (data[max(0, end - MAX_FORM_BYTES) : end] for end in ends):
        for exact in dict.fromkeys(_iter_escaped(piece)):
            yield _SecretForm(exact, exact.translate(None, IGNORED_BYTES), label, _looks_random(piece))
        for encoded in dict.fromkeys(_iter_encoded(piece)):
            yield _SecretForm(encoded, encoded, label, matches_wrapped=True)


def _looks_random(value: bytes) -> bool:
    """Whether the value is not words, so that it also matches wrapped over lines."""
    return not re.search(rb"\s", value) and bool(re.search(rb"\d", value)) and bool(re.search(rb"[A-Za-z]", value))


def _iter_escaped(data: bytes) -> Iterator[bytes]:
    yield data
    text = data.decode("utf-8", "surrogateescape")
    texts = [json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1], escape(text)]
    texts += [texts[0].replace("/", "\\/"), shell_quote(text)[1:-1] if "'" in text else text]
    texts += [text.replace("'", "'\\''"), text.replace("$", "$$"), re.sub(r"([^\w@%+=:,./-])", r"\\\1", text)]
    texts += [re.sub(r"[<>&'\"+]", lambda found: f"\\u{ord(found[0]):04x}", text)]
    yield from (each.encode("utf-8", "surrogateescape") for each in texts)
    for kept in (rb"\w.~-", rb"\w.~/-", rb"\w.~!$&'()*+,;=:@/-"):
        for spelled in (b"%%%02X", b"%%%02x"):
            url = re.sub(rb"[^" + kept + rb"]", lambda found, spelled=spelled: spelled % found[0][0], data)
            yield from (url, url.replace(b"%20", b"+"))


def _iter_encoded(data: bytes) -> Iterator[bytes]:
    yield data.hex().encode()
    yield data.hex().upper().encode()
    for ahead in range(3):  # bytes before it in a group of three
        whole = b64encode(bytes(ahead) + data)
        sure = whole[(ahead * 8 + 5) // 6 : (ahead + len(data)) * 8 // 6]  # the part independent of its neighbors
        yield sure
        yield sure.translate(bytes.maketrans(b"+/", b"-_"))
