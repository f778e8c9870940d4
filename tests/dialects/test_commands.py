"""The words for commands, which are the same in the dialects that have them."""

from dataclasses import replace

import pytest

from handhold.core.errors import BadArguments, NoShell, NoSuchJob, PartialUndo
from handhold.core.facts import CommandOutput, ExitStatus, SandboxStatus
from handhold.core.ports.dialect import Dialect
from handhold.core.requests import JobInput, JobOutput, JobStop, Run
from handhold.core.results import ChangedPath, JobResult, RunResult, SeenFileDiff
from handhold.dialects.claude import dialect as claude
from handhold.dialects.handhold import MAX_REPLY_CHARS
from handhold.dialects.handhold import dialect as handhold

HELD = SandboxStatus("bubblewrap 0.11.0", shadow=True, network=False)
DIRECT = SandboxStatus("bubblewrap 0.11.0", shadow=False, network=False, why_not=("no overlay here",))
RUN = Run("make", 120, MAX_REPLY_CHARS)
BOTH = pytest.mark.parametrize("dialect", [handhold, claude], ids=["handhold", "claude"])


def ran(output: CommandOutput | str = "", end: ExitStatus | None = None, **facts) -> RunResult:
    output = (
        CommandOutput(output, total_bytes=len(output), total_lines=output.count("\n"))
        if isinstance(output, str)
        else output
    )
    given = {"command": "make", "sandbox": HELD, "undo_scope": "all", "applied": "all"}
    return RunResult(exit_status=end or ExitStatus(0, seconds=0.5), output=output, **{**given, **facts})


def said(result, dialect: Dialect = handhold) -> str:
    return dialect.encode("", RUN, result, hints=True)


# --- how it ended


@BOTH
def test_c81_output_comes_first_and_the_exit_status_and_the_time_always(dialect):
    assert said(ran("hello\n"), dialect) == "hello\n[Exit status 0 after 0.50 s.]"
    assert said(ran("no\n", ExitStatus(2, seconds=61.234)), dialect) == "no\n[Exit status 2 after 61.23 s.]"


@BOTH
def test_c81_silence_is_said_in_words(dialect):
    assert said(ran(), dialect) == "[No output. Exit status 0 after 0.50 s.]"


def test_a_signal_is_named():
    assert said(ran(end=ExitStatus(None, "SIGSEGV", seconds=1))).endswith("Killed by SIGSEGV after 1.00 s.]")


def test_c80_a_timeout_says_what_became_of_it_and_of_what_it_did():
    late = ExitStatus(None, timed_out=True, seconds=120)
    assert said(ran("x\n", late)).startswith(
        "x\n[Timed out after 120.00 s; the command and all its processes were killed.]\n[It had changed nothing."
    )
    assert "were applied and can be undone" in said(
        ran("x\n", late, totals={"created": 1}, changed_paths=(ChangedPath("created", "a"),))
    )


# --- what it printed


def test_c82_long_output_shows_its_ends_and_names_the_file():
    cut = CommandOutput(
        "1\n2",
        "98\n99",
        total_bytes=5000,
        total_lines=99,
        omitted_lines=95,
        handle="/large_tool_results/x",
        kept_bytes=5000,
    )
    assert said(ran(cut)).split("\n[Exit")[0] == (
        "1\n2\n[… 95 lines left out here …]\n98\n99\n"
        "[The whole output (99 lines, 5,000 bytes) is in /large_tool_results/x. "
        "Read it in parts with read_file, or search it with grep.]"
    )


def test_c82_what_was_not_kept_is_said():
    flood = CommandOutput(
        "y",
        "y",
        total_bytes=10**10,
        total_lines=10**9,
        omitted_lines=10**9 - 2,
        handle="/large_tool_results/x",
        kept_bytes=10**9,
    )
    assert "Only 1,000,000,000 bytes of it were kept" in said(ran(flood))


def test_bytes_that_are_no_text_are_said_to_be_replaced():
    assert "not valid UTF-8" in said(
        ran(CommandOutput("\ufffd\n", total_bytes=2, total_lines=1, has_undecodable_bytes=True))
    )


# --- what it changed


def test_changes_are_listed_by_what_happened():
    text = said(
        ran(
            changed_paths=(
                ChangedPath("changed", "a.py"),
                ChangedPath("created", "build", "folder", entry_count=13),
                ChangedPath("deleted", "c.py"),
                ChangedPath("moved", "new.py", source="old.py"),
            ),
            totals={"changed": 1, "created": 1, "deleted": 1, "moved": 1},
        )
    )
    assert text.endswith(
        "[The command created build/ (12 entries); changed a.py; moved old.py to new.py; deleted c.py.]"
    )


def test_many_changes_are_counted():
    touched = tuple(ChangedPath("changed", f"{n}.py") for n in range(100))
    text = said(ran(changed_paths=touched, totals={"changed": 500, "deleted": 7}))
    assert "29.py and 470 more; deleted 7 paths.]" in text


def test_r38_a_commit_counts_the_data_of_git_and_names_what_git_follows():
    paths = ("a.py", ".git/config", ".git/hooks/pre-commit", ".git/index", ".git/logs/HEAD")
    changed = [ChangedPath("changed", path) for path in paths]
    changed.append(ChangedPath("created", "sub/.git/objects/ab", "folder", entry_count=3))
    text = said(ran(changed_paths=tuple(changed), totals={"changed": 5, "created": 1}))
    assert text.endswith("[The command changed a.py, .git/config, .git/hooks/pre-commit; changed 4 files in .git.]")
    only = ran(changed_paths=(ChangedPath("changed", ".git/index"),), totals={"changed": 1})
    assert said(only).endswith("[The command changed 1 file in .git.]")
    assert "would change 1 file in .git." in said(replace(only, applied="preview"))


def test_r38_what_is_not_listed_is_git_data_where_git_data_is_listed():
    listed = (ChangedPath("created", "a.py"), ChangedPath("created", ".git/objects/ab/cd"))
    assert "created a.py; changed 150 files in .git.]" in said(ran(changed_paths=listed, totals={"created": 151}))
    assert "created a.py and 150 more.]" in said(ran(changed_paths=listed[:1], totals={"created": 151}))


@BOTH
def test_r38_what_the_session_knows_about_its_sandbox_is_not_repeated(dialect):
    confined = replace(DIRECT, hidden=(".env",), hidden_total=1)
    new = ran("x\n", undo_scope="file tools only", sandbox=confined)
    assert "[Hidden from commands, because a rule denies reading: .env.]" in said(new, dialect)
    assert said(replace(new, sandbox_known=True), dialect) == "x\n[Exit status 0 after 0.50 s.]"


def test_a_preview_says_what_it_would_do_and_that_it_did_not():
    text = said(
        ran(
            applied="preview",
            changed_paths=(ChangedPath("deleted", "a"),),
            totals={"deleted": 1},
            protected=(".envrc",),
        )
    )
    assert "[Preview: nothing was changed. The command would delete a.]" in text
    assert "need approval for .envrc" in text
    assert "The command would change nothing." in said(ran(applied="preview"))


def test_what_was_refused_is_said_not_to_count():
    assert "its changes were discarded" in said(ran("x", applied="nothing"))


def test_a_conflict_says_whose_version_stays_and_where_the_other_is():
    clashes = (("a.py", "changed", "/kept/a.py"), ("b", "deleted", ""), ("c", "mode", ""), ("new", "changed", ""))
    text = said(ran(conflicts=clashes))
    theirs = "was changed by someone else while the command ran and was left as it is"
    assert f"[a.py {theirs}; the command's version is in /kept/a.py.]" in text
    assert f"[b {theirs}; the command would have deleted it.]" in text
    assert f"[c {theirs}; the command would have changed its mode.]" in text
    assert f"[new {theirs}.]" in text


def test_a_folder_that_was_closed_is_not_put_down_to_somebody_else():
    text = said(ran(conflicts=(("d", "closed", "/kept/d"),)))
    assert (
        "[d is no longer accessible, so the changes in it were discarded; the command's version is in /kept/d.]" in text
    )
    assert "someone else" not in text


@BOTH
def test_u8_what_undo_does_not_cover_is_said(dialect):
    text = said(ran("x\n", undo_scope="file tools only", sandbox=DIRECT), dialect)
    assert "[The command ran directly on the workspace (no overlay here)" in text


@BOTH
def test_c10_a_file_that_was_read_is_shown_as_it_is_now(dialect):
    text = said(ran(seen_diffs=(SeenFileDiff("a.py", "-x\n+y\n", complete=True),), undiffed_paths=("b.py",)), dialect)
    assert "-x\n+y\n[These are all their changes; you do not need to read them again.]" in text
    assert "[Read again before you edit: b.py.]" in text
    assert "More has changed than is shown here. Read again before you edit: a.py." in said(
        ran(seen_diffs=(SeenFileDiff("a.py", "-x\n", complete=False),)), dialect
    )


def test_c101_the_frame_around_an_output_of_20_000_tokens_stays_small():
    busy = ran(
        "x" * MAX_REPLY_CHARS,
        changed_paths=tuple(ChangedPath("moved", "p" * 5000, source="q" * 5000) for _ in range(100)),
        totals={"moved": 10**6},
        conflicts=tuple(("c" * 300, "changed", "/k") for _ in range(500)),
        notes=("n" * 5000,),
        seen_diffs=(SeenFileDiff("a.py", "+x\n" * 2000, complete=True),),
        undiffed_paths=tuple("u" * 300 for _ in range(100)),
        protected=tuple("p" * 300 for _ in range(100)),
    )
    assert len(said(busy)) <= 100_000


# --- in the background


def job(**facts) -> JobResult:
    given = {
        "job": "job-1",
        "running": True,
        "exit_status": None,
        "output": CommandOutput(""),
        "offset": 0,
        "next_offset": 0,
    }
    return JobResult(**{**given, "sandbox": DIRECT, "action": "output", **facts})


def test_c85_a_started_job_says_how_to_go_on_and_that_it_cannot_be_taken_back():
    text = said(job(action="start"))
    assert "[job-1 runs in the background. Read its output with bash_output; stop it with bash_stop.]" in text
    assert "so its changes cannot be undone" in text
    assert "with BashOutput; stop it with KillShell" in said(job(action="start"), claude)


def test_c85_a_job_says_whether_it_runs_and_whether_there_is_more():
    hi = CommandOutput("hi\n", total_bytes=3, total_lines=1, handle="/large_tool_results/x")
    assert said(job(output=hi, next_offset=3)) == "hi\n[job-1 is still running.]"
    assert said(job()) == "[No new output. job-1 is still running.]"
    ended = job(running=False, exit_status=ExitStatus(1, seconds=2), output=hi, next_offset=3)
    assert said(ended) == "hi\n[job-1: exit status 1 after 2.00 s.]"
    stopped = job(running=False, exit_status=ExitStatus(None, cancelled=True, seconds=2))
    assert (
        said(stopped) == "[No new output. job-1: stopped after 2.00 s; the command and all its processes were killed.]"
    )
    more = job(output=replace(hi, total_bytes=9), next_offset=3)
    assert more.status == "partial"
    assert "[There is more output. Continue with offset=3, or read /large_tool_results/x.]" in said(more)
    assert "Continue with BashOutput again" in said(more, claude)


# --- what is asked for


def test_c80_limits_of_time_are_120_and_600_seconds():
    assert handhold.decode("bash", {"command": "ls"}) == Run("ls", 120, MAX_REPLY_CHARS)
    assert handhold.decode("bash", {"command": "ls", "timeout": "600", "preview": True}) == Run(
        "ls", 600, MAX_REPLY_CHARS, preview=True
    )
    assert claude.decode("Bash", {"command": "ls", "description": "Lists"}) == Run("ls", 120, MAX_REPLY_CHARS)
    assert claude.decode("Bash", {"command": "ls", "timeout": 5000}) == Run("ls", 5, MAX_REPLY_CHARS)
    for dialect, tool, over in ((handhold, "bash", 601), (claude, "Bash", 600_001), (handhold, "bash", 0)):
        with pytest.raises(BadArguments) as caught:
            dialect.decode(tool, {"command": "ls", "timeout": over})
        assert caught.value.argument == "timeout"


def test_c85_a_job_has_a_deadline_too():
    assert handhold.decode("bash", {"command": "serve", "background": True}) == Run(
        "serve", 3600, MAX_REPLY_CHARS, background=True
    )
    assert claude.decode("Bash", {"command": "serve", "run_in_background": True}) == Run(
        "serve", 3600, MAX_REPLY_CHARS, background=True
    )
    with pytest.raises(BadArguments):
        handhold.decode("bash", {"command": "serve", "background": True, "preview": True})


def test_c85_jobs_are_asked_about_by_name():
    assert handhold.decode("bash_output", {"job": "j", "offset": 0}) == JobOutput("j", MAX_REPLY_CHARS, 0)
    assert handhold.decode("bash_output", {"job": "j"}) == JobOutput("j", MAX_REPLY_CHARS)
    assert handhold.decode("bash_input", {"job": "j", "text": "y\n"}) == JobInput("j", "y\n")
    assert handhold.decode("bash_stop", {"job": "j"}) == JobStop("j")
    assert claude.decode("BashOutput", {"bash_id": "j"}) == JobOutput("j", MAX_REPLY_CHARS)
    assert claude.decode("KillShell", {"shell_id": "j"}) == JobStop("j")


# --- what is refused


def test_refusals_say_why():
    assert (
        handhold.refuse("bash", NoShell("nothing confines it"), hints=True)
        == "The command was not run: nothing confines it."
    )
    assert "Use one of a, b." in handhold.refuse("bash_output", NoSuchJob("x", ("a", "b")), hints=True)
    partly = PartialUndo("undo", ("c3",), ("c2", "c1"), "UNDO_CONFLICT", ("a.py",))
    assert handhold.refuse("undo", partly, hints=True) == (
        "Only part was undone: c3. Not undone: c2, c1, because of a.py (UNDO_CONFLICT)."
    )
