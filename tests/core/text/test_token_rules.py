"""Private keys are recognised however they are printed, and what mentions one is not."""

import json
import random
import time
from base64 import b64encode
from textwrap import wrap

import pytest

from handhold.core.text.token_rules import make_token_redactor

pytestmark = pytest.mark.timeout(60)
LINES = wrap(b64encode(random.Random(1).randbytes(1190)).decode(), 64)
BEGIN, END = (f"-----{word} RSA PRIVATE KEY-----" for word in ("BEGIN", "END"))  # so that nobody takes it for a leak
PEM = "\n".join((BEGIN, *LINES, END, ""))
HEADERS = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,1AFB09C27D33E0A94B5517CC20F5E6A1\n\n"

PRINTED = {
    "as it is": PEM,
    "with headers": PEM.replace(LINES[0], HEADERS + LINES[0]),
    "with short headers": PEM.replace(LINES[0], "DEK-Info: DES-EDE3-CBC,1AFB09C27D33E0A9\n\n" + LINES[0]),
    "removed in a diff": "--- a/key\n+++ /dev/null\n" + "".join(f"-{line}\n" for line in PEM.splitlines()),
    "added in a diff": "".join(f"+{line}\n" for line in PEM.splitlines()),
    "with line numbers": "".join(f"{n:6}\t{line}\n" for n, line in enumerate(PEM.splitlines(), 1)),
    "as hits of a search": "".join(f"deploy/old-key.txt:{n}:{line}\n" for n, line in enumerate(PEM.splitlines(), 1)),
    "in JSON": json.dumps({"private_key": PEM, "client_email": "a-b@c-d.iam"}),
    "in JSON, cut": json.dumps({"private_key": PEM})[:900],
    "its first lines, then something else": "\n".join(PEM.splitlines()[:9]) + "\n-rw-r--r-- 1 u u 7 x.txt\n-----\n",
}


@pytest.mark.parametrize("printed", PRINTED.values(), ids=PRINTED)
def test_a_private_key_is_redacted_and_lines_keep_their_numbers(printed: str):
    shown = make_token_redactor()(printed)
    assert "[redacted: private-key]" in shown
    assert not [line for line in LINES if line[:24] in shown]
    assert shown.count("\n") == printed.count("\n")


def test_what_follows_a_part_of_a_key_is_shown():
    shown = make_token_redactor()(PRINTED["its first lines, then something else"])
    assert shown.endswith("\n-rw-r--r-- 1 u u 7 x.txt\n-----\n")


@pytest.mark.parametrize(
    "text",
    [
        f"{BEGIN}\n...\n{END}",
        f'if "{BEGIN}" in text:\n' + "    return decode(text, password=None, strict=True)\n" * 20,
        f"src/keys.py:12: HEADER = '{BEGIN}'\nsrc/keys.py:13: FOOTER = '{END}'\n",
        f'MARKERS = ("{BEGIN}", "{END}")\ncertificate.txt:2:{LINES[0]}\n',
        f"docs: a file that begins with {BEGIN}\n" + "tests/integration/fixtures/certificates/readme\n" * 9,
        f"{BEGIN} is removed\ncommit 0123456789abcdef0123456789abcdef01234567\n",
    ],
)
def test_the_mention_of_a_private_key_stays(text: str):
    assert make_token_redactor()(text) == text


@pytest.mark.parametrize(
    "piece",
    [BEGIN, f"{BEGIN}{LINES[0]}", f"{BEGIN} - ", f"{BEGIN}{'a' * 700}", LINES[0][:31]],
    ids=lambda piece: f"{len(piece)} characters",
)
def test_no_text_takes_long(piece: str):
    text = BEGIN + piece * (256 * 1024 // len(piece))
    started = time.perf_counter()
    make_token_redactor()(text)
    assert time.perf_counter() - started < 2
