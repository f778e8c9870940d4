"""Whether the journal is as it was written, told in words."""

import json
from collections.abc import Iterator
from dataclasses import asdict

import click

from handhold.core.ports.journal import JournalVerification


def print_verification(verification: JournalVerification, noted_head: str, *, as_json: bool) -> bool:
    """Print it, and tell whether all is well: the chain is whole, and the noted head, if there is one, is in it."""
    is_valid = verification.problem is None and (not noted_head or verification.noted_at is not None)
    if as_json:
        click.echo(json.dumps({"whole": verification.problem is None, **asdict(verification)}, indent=2))
    else:
        for line in format_verification(verification, noted_head):
            click.echo(line)
    return is_valid


def format_verification(verification: JournalVerification, noted_head: str) -> Iterator[str]:
    if verification.problem is None:
        yield f"{verification.count:,} records, each as it was written, in their order."
    else:
        yield f"The journal was altered: {verification.problem}."
        yield f"{verification.count:,} records before that are as they were written."
    yield f"head {verification.head}"
    if not noted_head:
        return
    if verification.noted_at is not None:
        yield f"The head that was noted is that of record {verification.noted_at}: nothing up to it was rewritten."
    elif verification.problem is None:
        yield "The head that was noted is not in this chain: the journal was written anew, or is another one."
    else:
        yield "The head that was noted is not in the part that is whole."
