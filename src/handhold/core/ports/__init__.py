"""What the core and the pipeline need of backends, policies and dialects: one file per provider.

Each port has one published suite of tests; every implementation passes it.
"""
