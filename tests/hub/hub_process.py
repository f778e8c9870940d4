"""A hub, as `handhold hub serve`; on request with the compare-and-swap off, to show that a test notices."""

import os

from handhold.cli import main

if os.environ.get("HANDHOLD_TEST_WITHOUT_COMPARE"):
    from handhold.hub import postgres

    postgres.COMPARE = "%(record)s >= 0 AND %(previous)s::bytea IS NOT NULL"

main()
