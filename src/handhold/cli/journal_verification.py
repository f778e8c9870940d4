"""The result of `handhold log --verify`."""

from collections.abc import Iterator
from dataclasses import dataclass

import click

from handhold.cli.options import print_json
from handhold.core.ports.journal import JournalVerification


@dataclass(frozen=True, kw_only=True)
class VerificationJSON(JournalVerification):
    whole: bool  # every record is intact


def print_verification(verification: JournalVerification, noted_head: str, *, as_json: bool) -> bool:
    """Print the result. True if the chain is intact and contains the noted head, if one was given."""
    is_valid = verification.problem is None and (not noted_head or verification.noted_at is not None)
    if as_json:
        print_json(VerificationJSON(**vars(verification), whole=verification.problem is None))
    else:
        for line in format_verification(verification, noted_head):
            click.echo(line)
    return is_valid


def format_verification(verification: JournalVerification, noted_head: str) -> Iterator[str]:
    if verification.problem is None:
        yield f"Verified {verification.count:,} records: the journal is intact."
    else:
        yield f"The journal was altered: {verification.problem}."
        yield f"The {verification.count:,} records before it are intact."
    yield f"head {verification.head}"
    if not noted_head:
        return
    if verification.noted_at is not None:
        yield f"The given hash is the head of record {verification.noted_at}: nothing up to it was rewritten."
    elif verification.problem is None:
        yield "The given hash is not in this chain: the journal was rewritten, or this is another journal."
    else:
        yield "The given hash is not in the intact part."
