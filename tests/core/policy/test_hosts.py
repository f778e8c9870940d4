"""One spelling for each host, or none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.policy.hosts import BadHost, HostPattern, normalize_host
from tests.backends.network.hostile_hosts import HOSTILE, SAME


@pytest.mark.parametrize("name", SAME)
def test_c83_a_name_has_one_spelling(name: str):
    assert normalize_host(name) == "files.example.org"


@pytest.mark.parametrize("name", HOSTILE)
def test_c83_a_hostile_name_is_no_name_or_another_one(name: str):
    pattern = HostPattern.parse("files.example.org")
    try:
        named = normalize_host(name)
    except BadHost:
        return
    assert not pattern.matches(named, 443)


@pytest.mark.parametrize(
    ("pattern", "host", "port", "covered"),
    [
        ("example.org", "example.org", 443, True),
        ("example.org", "example.org", 80, True),
        ("example.org", "example.org", 8080, False),
        ("example.org", "www.example.org", 443, False),
        ("*.example.org", "www.example.org", 443, True),
        ("*.example.org", "a.b.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "evilexample.org", 443, False),
        ("example.org:8080", "example.org", 8080, True),
        ("example.org:8080", "example.org", 443, False),
        ("EXAMPLE.org.", "example.org", 443, True),
    ],
)
def test_c83_a_pattern_covers_what_it_says(pattern: str, host: str, port: int, covered: bool):
    assert HostPattern.parse(pattern).matches(host, port) is covered


@pytest.mark.parametrize(
    "pattern", ["*", "*.org", "*.*.org", "ex*mple.org", "127.0.0.1", "*.0.0.1", "a b", "x.org:0", ""]
)
def test_c83_a_pattern_that_nobody_can_mean_is_refused(pattern: str):
    with pytest.raises(BadHost):
        HostPattern.parse(pattern)


@given(st.text(), st.text())
def test_c83_nothing_before_or_after_a_name_leaves_it_that_name(before: str, after: str):
    try:
        named = normalize_host(f"{before}files.example.org{after}")
    except BadHost:
        return
    assert named != "files.example.org" or (before, after) in (("", ""), ("", "."))
