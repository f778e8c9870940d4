"""Git's configuration: the parser agrees with git wherever it accepts a file, and only harmless settings may differ."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.core.policy.gitconfig import Setting, find_objection, is_ordinary_url, parse
from tests.scale import examples

PLAIN = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"


def inside(path: str) -> bool:
    return path.startswith("/ws/") and ".." not in path


def by_git(path: Path) -> list[tuple[str, str | None]]:
    listed = subprocess.run(
        ["git", "config", "--file", path, "--no-includes", "--list", "--null"],
        env=os.environ | {"GIT_CONFIG_NOSYSTEM": "1"},
        check=True,
        capture_output=True,
    ).stdout
    entries = [entry.decode("utf-8", "surrogateescape").partition("\n") for entry in listed.split(b"\0") if entry]
    return [(name, value if newline else None) for name, newline, value in entries]


def named(setting: Setting) -> str:
    return ".".join(part for part in (setting.section, setting.subsection, setting.key) if part is not None)


LINES = st.sampled_from(
    [
        *("[core]", "[CoRe] # note", '[remote "o.r"]', '[branch "a b"]', '[x "q\\"\\\\"]', "", "# c", "; c", "\t"),
        *("bare", "Bare = TRUE", "\tx = a b  c  ", 'x = "a  "', 'x = a" b "c ', "x = a # no", 'x = "a # b"', "x=1;y"),
        *(r"x = a\nb\tc\"d\\", "x = one\\", "  two", "x = ", "x", "y-z = 1", r"x = \q", '"', "[a.b]", "[core] x = 1"),
        *("x = \u00e9", "9 = 1", "= 1", "x = 'a'", "x y", "[", "]", '[a "', "x = a\\\\", "key = a\\"),
    ]
)


@settings(max_examples=examples(150), deadline=None)
@given(lines=st.lists(LINES, max_size=8))
def test_r10_what_is_parsed_is_always_what_git_reads(tmp_path_factory: pytest.TempPathFactory, lines: list[str]):
    data = "\n".join(lines).encode()
    try:
        parsed = parse(data)
    except ValueError:
        return  # a person is asked
    path = tmp_path_factory.mktemp("config") / "config"
    path.write_bytes(data)
    assert [(named(each), each.value) for each in parsed] == by_git(path)


@pytest.mark.parametrize(
    "data", [b"[core]\r\n\tbare = true\n", b"\xef\xbb\xbf[core]\n", b"[a]\n\0", b"x = 1\n", b"[a]\nx = \\"]
)
def test_what_is_not_understood_asks(data: bytes):
    with pytest.raises(ValueError):  # noqa: PT011 — whatever it says
        parse(data)
    assert find_objection(PLAIN, data, inside)


HARMLESS = [
    b'[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n',
    b'[branch "a/b"]\n\tremote = .\n\trebase = true\n',
    b'[remote "origin"]\n\turl = https://example.com/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n',
    b'[remote "up"]\n\turl = git@example.com:a/b.git\n\turl = ssh://git@example.com:22/a\n\turl = /ws/other\n',
    b"[user]\n\tname = Ann; Lee\n\temail = ann@example.com\n",
]
ASKED = [
    *(
        b"[core]\n\thooksPath = x\n",
        b"[core]\n\tfsmonitor = x\n",
        b"[core]\n\tsshCommand = x\n",
        b"[core]\n\tworktree = /\n",
    ),
    *(
        b"[core]\n\tpager = x\n",
        b"[core]\n\teditor = x\n",
        b"[core]\n\tattributesFile = x\n",
        b"[core]\n\tbare = $(x)\n",
    ),
    *(
        b"[include]\n\tpath = x\n",
        b'[includeIf "gitdir:/"]\n\tpath = x\n',
        b"[alias]\n\tx = !y\n",
        b"[gpg]\n\tprogram = x\n",
    ),
    *(b'[filter "x"]\n\tsmudge = y\n', b"[credential]\n\thelper = x\n", b'[url "x:"]\n\tinsteadOf = https:\n'),
    *(b'[remote "o"]\n\tuploadpack = x\n', b'[remote "o"]\n\treceivepack = x\n', b'[remote "o"]\n\tvcs = x\n'),
    *(b'[remote "o"]\n\tproxy = x\n', b'[remote "o"]\n\turl = ext::x\n', b'[branch "m"]\n\tremote = ext::x\n'),
    *(b'[branch "m"]\n\tremote = ../x\n', b'[branch "m"]\n\tmergeoptions = -s x\n', b'[diff "x"]\n\ttextconv = y\n'),
    *(b'[submodule "x"]\n\tupdate = !y\n', b"[protocol]\n\tallow = always\n", b"[extensions]\n\tpartialClone = x\n"),
    *(b'[remote "o"]\n\tfetch = --upload-pack=x\n', b"[http]\n\tproxy = x\n", b'[merge "x"]\n\tdriver = y\n'),
]


@pytest.mark.parametrize("added", HARMLESS)
def test_r10_harmless_settings_come_go_and_change(added: bytes):
    for before, after in ((None, PLAIN + added), (PLAIN, PLAIN + added), (PLAIN + added, PLAIN)):
        assert find_objection(before, after, inside) == ""


@pytest.mark.parametrize("added", ASKED)
def test_r10_every_other_setting_asks_whether_it_comes_goes_or_changes(added: bytes):
    assert find_objection(None, PLAIN + added, inside)
    assert find_objection(PLAIN, PLAIN + added, inside)
    assert find_objection(PLAIN + added, PLAIN, inside)
    assert find_objection(PLAIN + added, PLAIN + added.replace(b"= ", b"= z"), inside)
    assert find_objection(PLAIN + added, PLAIN + HARMLESS[0] + added, inside) == ""  # it was there, and stays


def test_r10_to_change_the_order_of_what_is_obeyed_asks():
    one, other = b"[core]\n\thooksPath = a\n", b"[core]\n\thooksPath = b\n"
    assert find_objection(one + other, other + one, inside)


@pytest.mark.parametrize(
    "url", ["https://example.com/a", "http://a.b:80/c?d", "ssh://me@h/x", "git://h/x", "me@h:x", "h:a/b.git", "/ws/a"]
)
def test_ordinary_urls(url: str):
    assert is_ordinary_url(url, inside)


@pytest.mark.parametrize(
    "url",
    [
        *("ext::sh -c x", "fd::3", "foo::bar", "x::https://h/y", "-x", "--upload-pack=x", "ssh://-oX=y/z", "-h:x"),
        *("../x", "x", ".", "./x", "/etc", "/ws/../x", "file:///ws/a", "ssh://me@-h/x", "h:-x", "rsync://h/x"),
        *("https://h/a b", "https://h/a\nb", "", "ftp://h/x", "https://", "~/x", "me@-h:x", "a::b:c"),
    ],
)
def test_r10_addresses_that_run_something_or_lead_elsewhere(url: str):
    assert not is_ordinary_url(url, inside)
