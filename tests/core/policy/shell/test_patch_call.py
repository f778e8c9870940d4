"""C-63: a shell call that is nothing but apply_patch is taken; every other spelling is refused, with the reason."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.core.errors import ExtraMissing, NoShell, NotOnlyPatch
from handhold.core.policy.shell.patch_call import PatchCall, parse_patch_call
from tests.scale import examples

PATCH = '*** Begin Patch\n*** Add File: a\n+it\'s "$HOME" `x` \\n\n*** End Patch\n'
PLAIN = "*** Begin Patch\n*** Delete File: a\n*** End Patch\n"
HEREDOC = f"<<'EOF'\n{PATCH}EOF\n"


def bash(script: str) -> list[str]:
    return ["bash", "-lc", script]


TAKEN = [
    (["apply_patch", PATCH], PATCH, ""),
    (["applypatch", PATCH], PATCH, ""),
    (["apply_patch", f"<<'EOF'\n{PATCH}EOF"], f"<<'EOF'\n{PATCH}EOF", ""),  # taken off by the parser of patches
    (bash(f"apply_patch {HEREDOC}"), PATCH, ""),
    (["bash", "-c", f"apply_patch {HEREDOC}"], PATCH, ""),
    (["bash", "-l", "-c", f"apply_patch {HEREDOC}"], PATCH, ""),
    (["/bin/sh", "-c", f"apply_patch {HEREDOC}"], PATCH, ""),
    (["zsh", "-lc", f"apply_patch {HEREDOC}"], PATCH, ""),
    (bash(f"apply_patch{HEREDOC.rstrip()}"), PATCH, ""),
    (bash(f"applypatch {HEREDOC}"), PATCH, ""),
    (bash(f'apply_patch <<"PATCH"\n{PATCH}PATCH'), PATCH, ""),
    (bash(f"apply_patch <<\\EOF\n{PATCH}EOF"), PATCH, ""),
    (bash(f"apply_patch <<'E O F'\n{PATCH}E O F"), PATCH, ""),
    (bash(f"apply_patch <<EOF\n{PLAIN}EOF"), PLAIN, ""),
    (bash(f"apply_patch <<-'EOF'\n\t{PLAIN}\tEOF"), PLAIN, ""),
    (bash(f"\n  apply_patch {HEREDOC}\n\n"), PATCH, ""),
    (bash(f"# the greeting\napply_patch {HEREDOC}"), PATCH, ""),
    (bash(f"apply_patch '{PLAIN}'"), PLAIN, ""),
    (bash(f'apply_patch "{PLAIN}"'), PLAIN, ""),
    (bash('apply_patch "*** Begin Patch\\n…"'), "*** Begin Patch\\n…", ""),
    (bash('apply_patch "a \\"b\\" \\$c \\\\ \\d"'), 'a "b" $c \\ \\d', ""),
    (bash("apply_patch $'*** Begin Patch\\n+it\\'s\\n'"), "*** Begin Patch\n+it's\n", ""),
    (bash("apply_patch 'it'\\''s'"), "it's", ""),
    (bash(f"cd src && apply_patch {HEREDOC}"), PATCH, "src"),
    (bash(f"cd 'a b/c' && apply_patch {HEREDOC}"), PATCH, "a b/c"),
    (bash(f'cd "a b" && apply_patch {HEREDOC}'), PATCH, "a b"),
    (bash(f"cd a\\ b && apply_patch {HEREDOC}"), PATCH, "a b"),
    (bash(f"cd /ws/src &&\napply_patch '{PLAIN}'"), PLAIN, "/ws/src"),
    (bash(f"bash -lc \"apply_patch <<'EOF'\n{PLAIN}EOF\""), PLAIN, ""),
    (bash(f"bash -lc \"cd subdir && apply_patch <<'EOF'\n{PLAIN}EOF\""), PLAIN, "subdir"),
]

REFUSED = [
    (bash(f"echo foo; apply_patch {HEREDOC}"), "another command"),
    (bash(f"echo foo\napply_patch {HEREDOC}"), "another command"),
    (bash(f"apply_patch {HEREDOC}echo done"), "another command"),
    (bash(f"apply_patch '{PLAIN}'; rm -rf ."), "another command"),
    (bash(f"apply_patch '{PLAIN}';"), "another command"),
    (bash(f"apply_patch <<'EOF' && echo ok\n{PATCH}EOF"), "another command"),
    (bash(f"echo x && apply_patch {HEREDOC}"), "another command"),
    (bash(f"true || apply_patch {HEREDOC}"), "another command"),
    (bash(f"cd a && cd b && apply_patch {HEREDOC}"), "more than one command"),
    (bash(f"cd a; apply_patch {HEREDOC}"), "another command"),
    (bash(f"cd a || apply_patch {HEREDOC}"), "another command"),
    (bash(f"cd && apply_patch {HEREDOC}"), "does not name one folder"),
    (bash(f"cd - && apply_patch {HEREDOC}"), "does not name one folder"),
    (bash(f"cd -P a && apply_patch {HEREDOC}"), "does not name one folder"),
    (bash(f"cd ~/a && apply_patch {HEREDOC}"), "pattern"),
    (bash(f"cd src* && apply_patch {HEREDOC}"), "pattern"),
    (bash(f'cd "$HOME" && apply_patch {HEREDOC}'), "value"),
    (bash(f"cd $(pwd) && apply_patch {HEREDOC}"), "output of another command"),
    (bash(f"cat <<'EOF' | apply_patch\n{PATCH}EOF"), "pipe"),
    (bash(f"apply_patch <<'EOF' | tee log\n{PATCH}EOF"), "pipe"),
    (bash("cat p.txt | apply_patch"), "pipe"),
    (bash("apply_patch < p.txt"), "redirected"),
    (bash(f"apply_patch <<'EOF' > log\n{PATCH}EOF"), "redirected"),
    (bash(f"apply_patch '{PLAIN}' 2>&1"), "redirected"),
    (bash(f"apply_patch <<< '{PLAIN}'"), "here-string"),
    (bash(f"apply_patch <<EOF\n{PATCH}EOF"), "not quoted"),
    (bash("apply_patch <<EOF\n+a \\\\ b\nEOF"), "not quoted"),
    (bash(f"apply_patch <<'EOF'\n{PATCH}"), "incomplete"),
    (bash(f"apply_patch '{PLAIN}"), "incomplete"),
    (bash('apply_patch "$PATCH"'), "value"),
    (bash("apply_patch $PATCH"), "value"),
    (bash('apply_patch "${PATCH:-x}"'), "value"),
    (bash('apply_patch "$(cat p.txt)"'), "output of another command"),
    (bash("apply_patch `cat p.txt`"), "output of another command"),
    (bash("apply_patch <(cat p.txt)"), "output of another command"),
    (bash("apply_patch $'a\\x41'"), "escapes"),
    (bash(f"apply_patch {HEREDOC.strip()} &"), "background"),
    (bash(f"apply_patch '{PLAIN}' &"), "background"),
    (bash(f"FOO=1 apply_patch {HEREDOC}"), "variable"),
    (bash(f"! apply_patch {HEREDOC}"), "negated"),
    (bash(f"(apply_patch '{PLAIN}')"), "subshell"),
    (bash(f"{{ apply_patch '{PLAIN}'; }}"), "group"),
    (bash(f"if true; then apply_patch '{PLAIN}'; fi"), "condition"),
    (bash(f"for i in 1 2; do apply_patch '{PLAIN}'; done"), "loop"),
    (bash(f"f() {{ apply_patch '{PLAIN}'; }}"), "function"),
    (bash(f"time apply_patch '{PLAIN}'"), "not the command itself"),
    (bash(f"sudo apply_patch '{PLAIN}'"), "not the command itself"),
    (bash("apply_patch"), "without a patch"),
    (bash(f"apply_patch '{PLAIN}' extra"), "only argument"),
    (bash(f"apply_patch --check {HEREDOC}"), "only argument"),
    (["apply_patch"], "0 arguments"),
    (["apply_patch", PATCH, "--force"], "2 arguments"),
    (["sudo", "apply_patch", PATCH], "not the command itself"),
    (["bash", "-x", "-c", "true", "apply_patch"], "not the command itself"),
    (bash("cd src && # there\napply_patch 'x'"), "a comment in the middle"),
]

OTHERS = [
    ["ls"],
    ["cat", "a.py"],
    bash("ls -la"),
    bash("echo 'apply_patch is a tool'"),
    bash("sed -i s/a/b/ a.py && git diff"),
    bash("cd src && pytest"),
    ["python", "-c", "print(1)"],
    bash(""),
    bash("if"),
]


def ids(command: list[str]) -> str:
    return command[-1].split("\n")[0][:60]


@pytest.mark.parametrize(("command", "patch", "folder"), TAKEN, ids=[ids(row[0]) for row in TAKEN])
def test_c63_a_call_of_apply_patch_is_taken(command: list[str], patch: str, folder: str):
    assert parse_patch_call(command) == PatchCall(patch, folder)


@pytest.mark.parametrize(("command", "because"), REFUSED, ids=[ids(row[0]) for row in REFUSED])
def test_c63_what_is_more_than_a_call_of_apply_patch_is_refused_with_the_reason(command: list[str], because: str):
    with pytest.raises(NotOnlyPatch) as raised:
        parse_patch_call(command)
    assert because in raised.value.because


@pytest.mark.parametrize("command", OTHERS, ids=ids)
def test_other_commands_are_not_run_here(command: list[str]):
    with pytest.raises(NoShell):
        parse_patch_call(command)


STAND_INS = """\
cd() { printf '%s' "$*"; }
apply_patch() { printf '\\0'; if [ $# = 0 ]; then cat; else printf '%s' "$1"; fi; }
applypatch() { apply_patch "$@"; }
"""


def really(script: str) -> PatchCall:
    """What bash itself makes of it."""
    command = ["bash", "-c", f"{STAND_INS}{script}"]
    folder, patch = subprocess.run(command, check=True, capture_output=True, timeout=50).stdout.decode().split("\0")
    return PatchCall(patch, folder)


@pytest.mark.parametrize("script", [row[0][2] for row in TAKEN if row[0][:2] == bash("")[:2] and "bash -lc" not in row[0][2]])  # fmt: skip
def test_what_is_taken_is_what_bash_would_have_given(script: str):
    assert parse_patch_call(bash(script)) == really(script)


PIECES = st.lists(
    st.sampled_from(["a", " ", "'", '"', "\\", "$", "`", "<<", "E", "\n", "(", "}", "#", "-", "\t", "*", "é", "!", "&", ";", "n"]),
    max_size=14,
).map("".join)  # fmt: skip


@given(PIECES, st.sampled_from(["{}", "apply_patch {}", "apply_patch {}\nE\n", "cd {} && apply_patch 'x'", "apply_patch <<'E'\n{}\nE\n", "apply_patch <<E\n{}\nE\n", "apply_patch <<-E\n\t{}\n\tE\n", 'apply_patch "{}"', "apply_patch $'{}'"]))  # fmt: skip
@settings(max_examples=examples(300))
def test_any_script_is_refused_or_taken_as_bash_would(text: str, around: str):
    script = around.replace("{}", text)
    try:
        call = parse_patch_call(bash(script))
    except (NotOnlyPatch, NoShell):
        return
    assert call == really(script)


def test_a_plain_call_needs_no_grammar(monkeypatch: pytest.MonkeyPatch):
    from handhold.core.policy.shell import grammar

    monkeypatch.setitem(sys.modules, "tree_sitter", None)
    grammar.load_language.cache_clear()
    assert parse_patch_call(["apply_patch", PATCH]) == PatchCall(PATCH)
    with pytest.raises(ExtraMissing):
        parse_patch_call(bash(f"apply_patch {HEREDOC}"))
