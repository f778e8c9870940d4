"""Find values that look secret in a file of secrets: by the name of their key, or by the shape of a known token type.

Addresses, hosts, paths, flags and placeholders are not secrets, whatever their key: redacting them would make ordinary
output unreadable.

Files may be crafted to take long, so every repetition that could be tried from many positions is bounded.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

MIN_SECRET_CHARS = 12  # shorter values are not redacted

# A key whose last word says so: API_KEY, apiKey, db.password, client-secret; or that names a kind of secret.
_SECRET_KEY = re.compile(
    r"(?:key|token|secret|passw(?:or)?d|passphrase|credentials?|pwd|key[-_]?base|auth)\Z"
    r"|(?:\A|[-_.])(?:pass|pat|salt|dsn)\Z"
    r"|(?:secret|private|access)[-_.]?key[-_.]?\w*\Z|passw(?:or)?d[-_.]\w+\Z",
    re.IGNORECASE,
)
_PUBLIC_KEY = re.compile(r"public|publishable|(?:\A|[-_.])pub(?:\Z|[-_.])", re.IGNORECASE)

TOKEN_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{30,}|glpat-[\w-]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{40,}"
    r"|sk-[A-Za-z0-9][\w-]{18,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{20,}|xox[abeoprs]-[\w-]{10,}"
    r"|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{35}|ya29\.[\w-]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}|hf_[A-Za-z0-9]{30,}"
    r"|dckr_pat_[\w-]{20,}|dop_v1_[a-f0-9]{40,}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|key-[a-f0-9]{32}"
    r"|eyJ[\w-]{8,300}\.eyJ[\w-]{8,2000}\.[\w-]{8,2000}|\$(?:2[aby]|apr1|5|6|argon2id?)\$[\w./$=,+-]{20,}"
    r")"
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----(.*?)(?:-----END|\Z)", re.DOTALL)
_KEY_LINE = re.compile(rf"^[ \t]*([A-Za-z0-9+/=]{{{MIN_SECRET_CHARS},}})[ \t\r]*$", re.MULTILINE)
_URL_PASSWORD = re.compile(r"[A-Za-z][\w+.-]{0,20}://[^\s/@:\"']{0,200}:([^\s/@\"']{1,1000})@")

# KEY=value, KEY: value, "key": "value", <key>value</key> with one word, and `password value` of .netrc.
_PAIR = re.compile(
    r"""(?:\A|[\s,;{(<"'])(?P<key>[A-Za-z_][\w.-]*)["']?[ \t]*(?:[:=]>?|>)[ \t]*"""
    r"""(?:"(?P<double>(?:[^"\\]|\\.){0,2000})"|'(?P<single>[^']{0,2000})'|(?P<bare>[^\s"'][^\r\n]{0,2000}))""",
    re.DOTALL,
)
_NETRC = re.compile(r"(?:\A|\s)(password)[ \t]+(\S+)", re.IGNORECASE)
_PGPASS_LINE = re.compile(
    r"^[^:\s#=]*:[^:\s]*(?::[^:\s]*){2}:(\S+)$", re.MULTILINE
)  # .pgpass: host:port:database:user:…

_NOT_SECRET = re.compile(
    r"(?i:true|false|yes|no|on|off|null|none|undefined)|-?[\d.,_]{1,11}"
    r"|[A-Za-z][\w+.-]*://\S*|\w+:\w+://\S*"  # a URL; its password is checked separately
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # a mail address
    r"|(?:[a-z0-9_-]+\.)+(?:com|net|org|io|dev|app|cloud|co|ai|local|internal|lan|test|localhost|[a-z]{2})(?::\d+)?(?:/\S*)?"
    r"|(?:[a-z0-9_-]+\.){2,}[a-z]{2,}(?::\d+)?|(?:[a-z][a-z0-9-]*|(?:\d+\.){3}\d+):\d{2,5}(?:/\S*)?"  # a host
    r"|(?:~|\.{1,2})/\S*|(?:/[a-z0-9._@-]+|/[A-Z][a-z]+)+/?|[A-Za-z]:\\\S*|[a-z0-9_.-]+(?:/[a-z0-9_.-]+)+"  # a path
    r"|[\w.-]+\.(?:pem|key|crt|cer|p12|pfx|jks|json|toml|ya?ml|ini|txt|pub|gpg)"
    r"|--?[a-z][\w-]*(?:=\S*)?|\$\{?\w+\}?|\$\(.*\)|%\w+%|\{\{.*\}\}|<[^>]*>"  # a flag, a reference
    r"|(?i:your|insert|replace|change[-_ ]?(?:me|this)|example|sample|dummy|fake|placeholder|todo|tbd)(?:[-_ ].*)?"
    r"|(.)\1*|.*[-_ ](?i:here|change[-_ ]?me|placeholder)(?:[-_ .].*)?",
    re.DOTALL,
)
_MIXED_CASE_AND_DIGITS = re.compile(r"(?=.*[a-z])(?=.*[A-Z])(?=.*\d)", re.DOTALL)


@dataclass(frozen=True)
class Secret:
    """A secret value, and the name that replaces it."""

    name: str
    value: str


def find_secrets(data: bytes, source: str) -> tuple[Secret, ...]:
    """The secrets in a text file; `source` names those without a name of their own, such as private keys."""
    if b"\0" in data:
        return ()
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    found: dict[str, Secret] = {}
    for name, value in _iter_candidates(text, source):
        value = value.strip()
        if len(value) >= MIN_SECRET_CHARS:
            found.setdefault(value, Secret(name, value))
    return tuple(found.values())


def _iter_candidates(text: str, source: str) -> Iterator[tuple[str, str]]:
    for block in _PRIVATE_KEY.findall(text):
        yield from ((source, line) for line in _KEY_LINE.findall(block.replace("\\n", "\n").replace("\\r", "")))
    for key, value in _iter_pairs(_PRIVATE_KEY.sub("", text)):
        yield from ((key, each) for each in _iter_url_passwords(value))
        if is_secret_key(key) and not is_plain_value(value):
            yield key, value
        yield from ((key, shape) for shape in TOKEN_SHAPES.findall(value))
    yield from ((source, each) for each in _iter_url_passwords(text))
    yield from ((source, shape) for shape in TOKEN_SHAPES.findall(text))
    if source == ".pgpass":
        yield from ((source, value) for value in _PGPASS_LINE.findall(text))
    elif source.endswith("netrc"):
        yield from _NETRC.findall(text)


def _iter_pairs(text: str) -> Iterator[tuple[str, str]]:
    """Keys and values of .env files, INI, YAML, JSON and properties."""
    at = within = 0
    while found := _PAIR.search(text, at):
        at = found.end()
        key = found["key"]
        if (value := found["single"]) is not None:
            yield key, value
        elif (value := found["double"]) is not None:
            yield key, value
            yield key, re.sub(r"\\(.)", lambda each: {"n": "\n", "t": "\t"}.get(each[1], each[1]), value)
        else:
            if found.start("bare") >= within:
                bare = re.sub(r"\s#.*", "", found["bare"]).strip()
                yield key, re.sub(r"</\w+>\Z", "", bare).rstrip(",;")
                within = found.end()
            else:  # one of several pairs in a line that was already yielded whole
                yield key, re.split(r"[,;{}\[\]\s]", found["bare"][:300], maxsplit=1)[0]
            if re.search(r"[,;{\[]", found["bare"][:300]):
                at = found.start("bare")


def _iter_url_passwords(text: str) -> Iterator[str]:
    for password in _URL_PASSWORD.findall(text):
        if not re.fullmatch(r"\$\{?\w+\}?|<.*>|\*+", password):
            yield password
            yield re.sub(r"%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), password)


def is_secret_key(key: str) -> bool:
    return _SECRET_KEY.search(key) is not None and not _PUBLIC_KEY.search(key)


def is_plain_value(value: str) -> bool:
    """Whether a value is no secret, whatever its key: an address, a host, a path, a flag, a placeholder."""
    found = _NOT_SECRET.fullmatch(value)
    # A random text may look like a path or a host by chance.
    return found is not None and not (
        _MIXED_CASE_AND_DIGITS.search(value) and re.fullmatch(r"/?[A-Za-z0-9+/]{20,}={0,2}", value)
    )
