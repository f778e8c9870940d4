"""A script of commands that end otherwise than well and at once, for the own tools of Claude Code and Codex.

Where such a command writes later, it waits for a gate: the driver opens it between two calls of the agent.
"""

from dataclasses import dataclass
from typing import Any

from tests.agents.programs import GIT_SETTINGS, REMOTE, START_SSHD

Call = dict[str, Any]
FILES = {
    "b.txt": "one\ntwo\n",
    "package.json": '{"name": "app", "version": "1.0.0"}\n',
    "left/package.json": '{"name": "left", "version": "1.0.0"}\n',
    "left/index.js": "module.exports = 1\n",
    ".gitignore": "node_modules/\n",
}
DATES = "export GIT_AUTHOR_DATE=2026-01-01T00:00:00Z GIT_COMMITTER_DATE=2026-01-01T00:00:00Z"
REPOSITORY = f"""
set -e
{DATES}
npm pack --silent ./left
git init -q .
git add -A
git commit -qm first
git remote add origin {REMOTE}
"""
BEFORE = [["bash", "-c", START_SSHD], ["bash", "-c", REPOSITORY]]
HOME = {".gitconfig": GIT_SETTINGS}


@dataclass(frozen=True)
class Script:
    """What differs: how a tool is called, and what a client does with a command that goes on."""

    arguments: list[str]
    resume: list[str]
    background: Call  # options of the shell tool
    timeout: Call
    poll: Call
    subagent: Call
    write: Call  # a sub-agent's edit
    goes_on: frozenset[str]  # files that are written late
    foreign: frozenset[str]  # those of them that are nobody's


def wait(gate: str, file: str) -> str:
    return f"while [ ! -e /tmp/gates/{gate} ]; do sleep .05; done; echo late > {file}"


def detached(gate: str, file: str) -> str:
    """Starts a command that goes on whatever becomes of the shell: in a session of its own, and nobody's child."""
    return f"(setsid sh -c '{wait(gate, file)}' >/dev/null 2>&1 </dev/null &);"


def shell(client: str, command: str, **options: Any) -> Call:
    if client == "codex":
        return {"tool": "exec_command", "input": {"cmd": command, **options}}
    return {"tool": "Bash", "input": {"command": command, "description": "A step", **options}}


CLAUDE = ["--output-format", "stream-json", "--verbose", "--allowedTools", "Bash,Read,Edit,Write,Agent"]
# Its sandbox has no network, and protects `.git`: the container is what confines it here.
CODEX = ["exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access", "--dangerously-bypass-hook-trust"]
TASK = "sub-agent: make two files"
SCRIPTS = {
    "claude-code": Script(
        arguments=["-p", "go", *CLAUDE],
        resume=["--continue", "-p", "go on", *CLAUDE],
        background={"run_in_background": True},
        timeout={"timeout": 1500},
        poll=shell("claude-code", "cat b.txt"),
        subagent={
            "tool": "Agent",
            "input": {"description": "two files", "prompt": TASK, "subagent_type": "general-purpose"},
        },
        write={"tool": "Write", "input": {"file_path": "{project}/sub2.txt", "content": "sub\n"}},
        goes_on=frozenset({"ampersand.txt", "detached.txt", "background.txt", "timeout.txt"}),
        foreign=frozenset({"ampersand.txt", "detached.txt", "background.txt", "timeout.txt"}),
    ),
    "codex": Script(
        arguments=[*CODEX, "go"],
        resume=[*CODEX, "resume", "--last", "go on"],
        background={"yield_time_ms": 300},  # and nobody asks for the rest
        timeout={"yield_time_ms": 300},
        poll={
            "tool": "write_stdin",
            "input": {"session_id": "{process of call_4_0}", "chars": "", "yield_time_ms": 2000},
        },
        subagent={"tool": "multi_agent_v1.spawn_agent", "input": {"message": TASK}},
        write={"tool": "apply_patch", "text": "*** Begin Patch\n*** Add File: sub2.txt\n+sub\n*** End Patch\n"},
        # What a finished command leaves in its process group is killed. A call that was let go on is open until the next.
        goes_on=frozenset({"detached.txt", "background.txt", "timeout.txt"}),
        foreign=frozenset({"detached.txt"}),
    ),
}
SUBAGENT_STEP, TURN_2 = 7, 11  # the steps of the sub-agent, and of what comes after the second prompt
GATES = {
    "2": {"ampersand": "ampersand.txt"},
    "3": {"detached": "detached.txt"},
    "4": {"background": "background.txt"},
    "5": {"timeout": "timeout.txt"},
}


def make_steps(client: str) -> list[list[Call]]:
    script = SCRIPTS[client]
    return [
        [shell(client, "echo partly > failed.txt; exit 3")],
        [shell(client, f"({wait('ampersand', 'ampersand.txt')}) >/dev/null 2>&1 & echo now > now.txt")],
        [shell(client, f"{detached('detached', 'detached.txt')} echo now > now2.txt")],
        [shell(client, f"echo now > now3.txt; {wait('background', 'background.txt')}", **script.background)],
        [shell(client, f"echo now > now4.txt; {wait('timeout', 'timeout.txt')}", **script.timeout)],
        [script.poll],
        [shell(client, f"sleep 0.3; echo {n} > parallel{n}.txt") for n in range(3)],
        [script.subagent],
        [shell(client, "npm install --offline --silent --no-audit --no-fund ./left-1.0.0.tgz")],
        [shell(client, f"{DATES}; git add -A b.txt package.json && git commit -qm second")],
        [shell(client, f"{DATES}; git push -q -u origin main")],
        [shell(client, "echo three >> b.txt")],
    ]


def make_subagent_steps(client: str) -> list[list[Call]]:
    return [[shell(client, "echo sub > sub1.txt")], [SCRIPTS[client].write]]


def make_gates(client: str) -> dict[str, dict[str, str]]:
    """Nobody waits for what never comes."""
    late = SCRIPTS[client].goes_on
    return {step: {gate: file if file in late else "" for gate, file in each.items()} for step, each in GATES.items()}
