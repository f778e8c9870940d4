"""C-89: 42 ways in which a secret gets into an output, and outputs in which nothing may be redacted.

`CAUGHT` and `MISSED` are data: what is missed is listed in `docs/threat-model.md`, and a test holds the two together.
"""

import codecs
import gzip
import html
import json
import os
import random
import re
import subprocess
import sys
import urllib.parse
from base64 import b32encode, b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest

from handhold.core.text.redaction import Redaction, Redactor
from handhold.core.text.secrets import MIN_SECRET_CHARS, Secret, find_secrets, is_plain_value, is_secret_key
from tests.scale import sampled

PLAIN = "xK9mQ2vL7pR4tW8z"
ODD = "p@ss/W0rd+\"q'$x&y=9é"  # has what every notation escapes
KEY_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
VALUES = {"API_KEY": PLAIN, "DB_PASSWORD": ODD, "server.key": KEY_LINE}
REDACTION = Redaction(Secret(name, value) for name, value in VALUES.items())
ROOT = Path(__file__).parents[3]


def percent(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def wrapped(text: str, width: int) -> str:
    return "\n".join(text[at : at + width] for at in range(0, len(text), width))


CAUGHT: dict[str, Callable[[str], str | bytes | list[str]]] = {
    "exact": lambda value: value,
    "twice in a line": lambda value: f"{value} {value}",
    "in a line of an environment": lambda value: f"A=1\nAPI_KEY={value}\nB=2\n",
    "in single quotes": lambda value: f"export API_KEY='{value}'",
    "in double quotes": lambda value: f'API_KEY="{value}"',
    "in a header": lambda value: f"Authorization: Bearer {value}\r\n",
    "in an address": lambda value: f"curl https://user:{value}@host.example/path",
    "as an argument": lambda value: f"+ psql --password={value} -c 'select 1'",
    "in a traceback": lambda value: f"KeyError: {value!r}",
    "in a grep hit": lambda value: f"src/app.py:12:key = '{value}'",
    "in a grep hit with colours": lambda value: (
        f"\x1b[35mapp.py\x1b[m:\x1b[01;31m\x1b[K{value[:6]}\x1b[m\x1b[K{value[6:]}"
    ),
    "in a file name": lambda value: f"-rw-r--r-- 1 me me 0 Jan  1 00:00 backup-{value}.txt",
    "in a diff": lambda value: f"-KEY={value}\n+KEY={value}\n",
    "in XML": lambda value: f"<password>{html.escape(value)}</password>",
    "in JSON": lambda value: json.dumps({"key": value}),
    "in JSON, letters as they are": lambda value: json.dumps({"key": value}, ensure_ascii=False),
    "in JSON, with escaped slashes": lambda value: json.dumps({"key": value}).replace("/", "\\/"),
    "in YAML": lambda value: f"key: {value}\n",
    "URL-encoded": percent,
    "URL-encoded in lower case": lambda value: re.sub("%..", lambda found: found[0].lower(), percent(value)),
    "URL-encoded as a form": lambda value: f"a=1&key={urllib.parse.quote_plus(value)}&b=2",
    "in hex": lambda value: value.encode().hex(),
    "in upper hex": lambda value: value.encode().hex().upper(),
    "in hex with spaces, as od prints it": lambda value: wrapped(value.encode().hex(" "), 48),
    "in hex over lines, as xxd -p prints it": lambda value: wrapped(("00" * 25 + value.encode().hex()), 60),
    "in base64": lambda value: b64encode(value.encode()).decode(),
    "in base64 after one byte": lambda value: b64encode(b"a" + value.encode() + b"zz").decode(),
    "in base64 after two bytes": lambda value: b64encode(b"ab" + value.encode() + b"z").decode(),
    "in base64 within a file": lambda value: b64encode(f"A=1\nKEY={value}\nB=2\n".encode()).decode(),
    "in base64 for addresses": lambda value: urlsafe_b64encode(b"??>" + value.encode()).decode(),
    "in base64 over lines": lambda value: wrapped(b64encode(b"x" * 50 + value.encode()).decode(), 76),
    "split over two reads": lambda value: [f"key {value[:5]}", f"{value[5:]} end"],
    "letter by letter": lambda value: [*f"key {value} end"],
    "split in base64": lambda value: [b64encode(value.encode()).decode()[:9], b64encode(value.encode()).decode()[9:]],
    "split in a colour code": lambda value: [f"{value[:6]}\x1b[3", f"1m{value[6:]}"],
    "colours between all letters": lambda value: "".join(f"\x1b[1;32m{char}\x1b[0m" for char in value),
    "folded over lines": lambda value: wrapped(value, 7),
    "after a million bytes": lambda value: "." * 1_000_003 + value,
    "with NUL around it": lambda value: f"A=1\0KEY={value}\0B=2\0",
    "in UTF-16": lambda value: value.encode("utf-16-le"),
}

MISSED: dict[str, Callable[[str], str]] = {
    "compressed": lambda value: gzip.compress(value.encode(), mtime=0).hex(),
    "shifted (ROT13)": lambda value: codecs.encode(value, "rot13"),
    "reversed": lambda value: value[::-1],
    "in other case": lambda value: value.swapcase(),
    "in base64 of base64": lambda value: b64encode(b64encode(b64encode(value.encode()))).decode(),
    "in base32": lambda value: b32encode(value.encode()).decode(),
    "as numbers": lambda value: " ".join(str(byte) for byte in value.encode()),
    "with other text between its letters": "-".join,
    "in part": lambda value: value[: len(value) // 2],
}


def redacted(printed: str | bytes | list[str], redaction: Redaction = REDACTION) -> str:
    redactor = Redactor(redaction)
    pieces = printed if isinstance(printed, list) else [printed]
    data = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    return b"".join([*map(redactor.feed, data), redactor.flush()]).decode("utf-8", "replace")


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("form", CAUGHT)
def test_e2_c89_a_form_is_redacted(form: str, name: str):
    value = VALUES[name].replace("é", "") if form == "in UTF-16" else VALUES[name]
    shown = redacted(CAUGHT[form](value), Redaction([Secret(name, value)]))
    assert f"[redacted: {name}]" in shown
    assert not any(value[at : at + MIN_SECRET_CHARS] in shown for at in range(3, len(value) - MIN_SECRET_CHARS + 1)), (
        shown
    )


@pytest.mark.parametrize("form", MISSED)
def test_e2_the_threat_model_names_what_is_not_caught(form: str):
    assert "[redacted" not in redacted(MISSED[form](PLAIN))
    said = " ".join((ROOT / "docs/threat-model.md").read_text().split())
    assert form in said


def test_e2_there_are_forty_forms_at_least():
    assert len(CAUGHT) >= 40


@pytest.mark.parametrize("seed", range(20))
def test_e2_pieces_do_not_matter_and_nothing_else_is_changed(seed: int):
    """Any cut into pieces shows the same as the whole, but for three letters that may be shown first."""
    rng = random.Random(seed)
    words = [*VALUES.values(), PLAIN[:7], KEY_LINE[:40], "\x1b[31m", "\n", " ", "plain text", "\x1b[0m", "xK9", "é"]
    data = "|".join(rng.choices(words, k=60)).encode()
    redactor, at, out = Redactor(REDACTION), 0, b""
    while at < len(data):
        size = rng.choice((1, 2, 5, 30, 200))
        out += redactor.feed(data[at : at + size])
        at += size
    out += redactor.flush()
    whole = Redactor(REDACTION)
    expected = whole.feed(data) + whole.flush()

    def without_beginnings(text: bytes) -> bytes:
        for name, value in VALUES.items():
            for size in (3, 2, 1):
                text = text.replace(
                    value.encode()[:size] + f"[redacted: {name}]".encode(), f"[redacted: {name}]".encode()
                )
        return re.sub(rb"\x1b\[\d*m", b"", text)

    assert without_beginnings(out) == without_beginnings(expected)
    for value in VALUES.values():
        assert value.encode() not in out


# --- what is a secret

ENV = f"""\
# A realistic one
NODE_ENV=development
PORT=3000
DEBUG=true
LOG_LEVEL=info
HOST=0.0.0.0
VITE_API_URL=http://localhost:3000/api
PUBLIC_URL=https://app.example.com
DATABASE_URL=postgres://app:{PLAIN}@db.internal:5432/app
REDIS_URL=redis://localhost:6379/0
AWS_REGION=eu-central-1
AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE
AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzzzz
GOOGLE_APPLICATION_CREDENTIALS=/etc/keys/service-account.json
SSL_KEY=./certs/server.key
TLS_KEY=certs/tls.pem
SMTP_HOST=smtp.mail.example.com
SMTP_PASSWORD="correct horse battery"  # words
MAIL_FROM=noreply@example.com
FEATURE_FLAGS=--enable-source-maps
JWT_SECRET=your-jwt-secret-here
SESSION_SECRET=changeme
COOKIE_TOKEN=${{SESSION_SECRET}}
STRIPE_PUBLISHABLE_KEY=pk_test_51H8abcdefghijklmnop
export GITHUB_AUTH='ghp_abcdefghijklmnopqrstuvwxyz0123456789'
CACHE_KEY=true
API_KEY=3000
TIMEOUT_TOKEN=30000
"""
EXPECTED = {
    ("DATABASE_URL", PLAIN),
    ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
    ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzzzz"),
    ("SMTP_PASSWORD", "correct horse battery"),
    ("GITHUB_AUTH", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"),
}


def test_e2_c89_values_that_look_secret_and_no_others():
    assert {(each.name, each.value) for each in find_secrets(ENV.encode(), ".env")} == EXPECTED


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        (json.dumps({"private_key": f"-----BEGIN PRIVATE KEY-----\n{KEY_LINE}\n-----END PRIVATE KEY-----\n"}), "f", KEY_LINE),
        (f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINE}\nabcdefghij12==\n-----END RSA PRIVATE KEY-----", "f", "abcdefghij12=="),
        (f"machine host login me password {PLAIN}\n", "password@.netrc", PLAIN),
        (f"host:5432:db:user:{PLAIN}\n", ".pgpass@.pgpass", PLAIN),
        (f"https://me:{PLAIN}@git.example.com\n", "f", PLAIN),
        (f'[registry]\ntoken = "{PLAIN}"\n', "token", PLAIN),
        (f"spring:\n  datasource:\n    password: {PLAIN}\n", "password", PLAIN),
        (f'{{"clientSecret":"{PLAIN}","id":"a"}}', "clientSecret", PLAIN),
        (f"Server=db;User Id=sa;Password={PLAIN};", "Password", PLAIN),
        (f"\ufeffAPI_TOKEN = {PLAIN}\r\n", "API_TOKEN", PLAIN),
        ("DB_PASSWORD='with # and spaces 1'", "DB_PASSWORD", "with # and spaces 1"),
    ],
)  # fmt: skip
def test_e2_files_of_many_kinds_are_read(text: str, name: str, value: str):
    name, _, source = name.partition("@")
    assert Secret(name, value) in find_secrets(text.encode(), source or "f")


@pytest.mark.parametrize(
    "data", [b"", b"\0\1\2API_KEY=" + PLAIN.encode(), b"=\n==\n:::\n", b"\xff\xfe" * 50, b"KEY=\n" * 5000]
)
def test_e2_what_is_no_text_has_no_secrets(data: bytes):
    assert find_secrets(data, "f") == ()


@pytest.mark.parametrize("value", ["true", "3000", "http://localhost:3000/api", "db.internal:5432", "/run/secrets/pw", "./a/b", "localhost:8080", "--verbose-output", "${OTHER_TOKEN}", "xxxxxxxxxxxx", "2026.11.16"])  # fmt: skip
def test_e2_an_address_a_host_a_path_a_flag_is_no_secret(value: str):
    assert is_plain_value(value)


@pytest.mark.parametrize("key", ["API_KEY", "apiKey", "x.token", "client-secret", "DB_PASSWORD", "GOOGLE_CREDENTIALS", "SECRET_KEY_BASE"])  # fmt: skip
def test_e2_keys_that_say_so(key: str):
    assert is_secret_key(key)


@pytest.mark.parametrize(
    "key", ["PORT", "KEYBOARD", "API_URL", "PUBLIC_KEY", "MONKEYS", "TOKENIZER", "AUTHOR", "PASSING"]
)
def test_e2_keys_that_do_not(key: str):
    assert not is_secret_key(key)


@pytest.mark.parametrize(
    "piece",
    sampled(
        ["a", "a=", 'a="\\"', "-eyJ", "://a:", "K=1,", "a='", "x-here-", "a.", "/a", "-----BEGIN ", "K:{", "\n"], 5
    ),
)
def test_e2_no_file_takes_long_to_read(piece: str):
    """A hostile project must not hold up its commands. The limit is far above what it takes."""
    data = (piece * (256 * 1024 // len(piece))).encode()
    began = process_time()
    find_secrets(b"API_KEY=" + data, "f")
    assert process_time() - began < 20


# --- nothing else is redacted

NPM = """\
npm warn deprecated inflight@1.0.6: This module is not supported, and leaks memory.
added 1243 packages, and audited 1244 packages in 31s
  VITE v5.4.2  ready in 412 ms
  ➜  Local:   http://localhost:5173/
  ➜  API:     http://localhost:3000/api (true)
dist/assets/index-B3xkd9fa.js   143.21 kB │ gzip: 46.12 kB
integrity sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvj5FvSg==
Collecting flask==3.0.3 (from -r requirements.txt (line 4))
Successfully installed blinker-1.8.2 click-8.1.7 flask-3.0.3
Server listening on 0.0.0.0:3000, NODE_ENV=development, redis://localhost:6379/0, correct horses, battery
"""
COMMANDS = (
    ["env"],
    ["git", "log", "--stat", "-n", "60"],
    ["git", "ls-files", "-s"],
    ["git", "help", "-a"],
    ["ls", "-laR", "/usr/lib/git-core"],
    ["sha256sum", *map(str, sorted((ROOT / "src/handhold/core").rglob("*.py")))],
    [sys.executable, "-m", "sysconfig"],
    [sys.executable, "-X", "importtime", "-c", "import json"],
    ["base64", str(ROOT / "CHANGELOG.md")],
    ["od", "-An", "-tx1", str(ROOT / "justfile")],
    ["cat", *map(str, sorted((ROOT / "src").rglob("*.py")))],
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: " ".join(each)[:30])
def test_e2_output_of_real_programs_is_not_altered(command: list[str]):
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=ROOT,
        check=False,
        env={**os.environ, "PAGER": "cat"},
    )
    assert len(done.stdout) > 500
    redactor = Redactor(Redaction(find_secrets(ENV.encode(), ".env")))
    pieces = (done.stdout[at : at + 4096] for at in range(0, len(done.stdout), 4096))
    assert b"".join([*map(redactor.feed, pieces), redactor.flush()]) == done.stdout


def test_e2_output_that_quotes_what_is_not_secret_is_not_altered():
    redaction = Redaction(find_secrets(ENV.encode(), ".env"))
    assert redaction.redact(NPM) == NPM
    plain = [line for line in ENV.splitlines() if not any(value in line for _, value in EXPECTED)]
    assert len(plain) > 20
    for line in plain:
        assert redaction.redact(f"  {line} # {line}") == f"  {line} # {line}"
    words = "correct\nhorse battery, correct  horse  battery"  # not as it stands in the file
    assert redaction.redact(words) == words
