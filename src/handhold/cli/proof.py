"""Whether the journal is as it was written, told in words."""

import json
from collections.abc import Iterator
from dataclasses import asdict

import click

from handhold.core.ports import Verified


def show(told: Verified, noted: str, *, as_json: bool) -> bool:
    """Print it, and tell whether all is well: the chain is whole, and the noted head, if there is one, is in it."""
    well = told.problem is None and (not noted or told.noted_at is not None)
    if as_json:
        click.echo(json.dumps({"whole": told.problem is None, **asdict(told)}, indent=2))
    else:
        for line in words(told, noted):
            click.echo(line)
    return well


def words(told: Verified, noted: str) -> Iterator[str]:
    if told.problem is None:
        yield f"{told.count:,} records, each as it was written, in their order."
    else:
        yield f"The journal was altered: {told.problem}."
        yield f"{told.count:,} records before that are as they were written."
    yield f"head {told.head}"
    if not noted:
        return
    if told.noted_at is not None:
        yield f"The head that was noted is that of record {told.noted_at}: nothing up to it was rewritten."
    elif told.problem is None:
        yield "The head that was noted is not in this chain: the journal was written anew, or is another one."
    else:
        yield "The head that was noted is not in the part that is whole."
