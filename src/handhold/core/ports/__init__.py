"""What the core and the pipeline need of backends, policies and dialects: one file for each who provides it.

Each port has one published suite of tests; every implementation passes it.
"""
