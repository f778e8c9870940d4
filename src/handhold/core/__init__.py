"""The pure core: takes requests, returns plans and results, and performs no I/O of its own."""
