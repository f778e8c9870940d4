"""Writes the reference pages from the code that they are about: tools by dialect, settings, commands, error codes.

    python checks/reference.py            write docs/reference/, and docs/llms.txt from the site's table of contents
    python checks/reference.py --check    say what would be written otherwise, and fail

What only people can say (what an option is for) stands here as data, and the code says whether it is complete: an
option without words, or words without an option, end the run.
"""

import difflib
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from handhold.cli.commands import COMMANDS, EXIT_STATUS_HELP, handhold
from handhold.core import errors
from handhold.core.choices import DIALECTS
from handhold.core.errors import ErrorSource, ToolError
from handhold.core.policy.rules import Rule
from handhold.core.ports.dialect import Dialect
from handhold.core.results import ToolSpec
from handhold.dialects.error_messages import format_plain_error
from handhold.dialects.model_families import DEFAULT_DIALECT, MODEL_FAMILIES
from handhold.factory import load_dialect
from handhold.testing import iter_error_types
from handhold.toolbox import Toolbox

PROJECT = Path(__file__).parents[1]
DOCS = PROJECT / "docs"
MADE = "<!-- Made by checks/reference.py: change the code, then run `just reference`. -->\n"

# --- words that only people have

TWO_VENDORS = "[decision 14](../decisions/0014-dialects-of-two-vendors.md)"
FOLLOWS = {  # what a dialect follows, as of when, and for whom it is; sources are those of the contract
    "handhold": ("our own contract", "this version", "models without a family of their own, and people"),
    "claude": (
        "source 002: Read, Edit and MultiEdit letter by letter, the other tools in the same manner",
        "undated, read in November 2026; Claude Code of today has no LS, MultiEdit, BashOutput and KillShell",
        "Claude models in an agent of your own",
    ),
    "codex": (
        "source 000, 5.3: apply_patch and its call by `shell`",
        "undated, read in November 2026; Codex CLI of today has exec_command and write_stdin instead of shell",
        "GPT and Codex models, which know this patch format",
    ),
    "deepagents": (
        "source 000, 5.1, 5.2, 5.4 and 5.5: a chapter on file tools, commands and large output",
        "undated, read in November 2026",
        "agents that are built like deepagents; the framework itself has an adapter",
    ),
    "tiny": (
        "source 001: four tools of an agent written in Go, in Chinese",
        "a published design, undated, read in November 2026",
        "agents that follow that series; models that are addressed in Chinese",
    ),
    "hello": (
        "source 003: three tools of an agent written in TypeScript and its registry, in Chinese",
        "a published design, undated, read in November 2026",
        "agents that follow that tutorial; models that are addressed in Chinese",
    ),
    "mycode": (
        "source 004: LS, Glob, Grep and Read, whose replies are JSON, in Chinese",
        "a published design, undated, read in November 2026",
        "agents that only look around, and parse what they get",
    ),
    "anthropic": (
        "the vendor's tool types text_editor_20250728 and bash_20250124: " + TWO_VENDORS,
        "July and January 2025, read in November 2026",
        "Claude models by the vendor's API, in the words of today",
    ),
    "gemini": (
        "the vendor's pages on the tools of its command line: " + TWO_VENDORS,
        "undated, several versions, read in November 2026",
        "Gemini models",
    ),
}
OPENS = {
    "root": ("the folder, or several; a path that is relative means the first", ""),
    "state": ("where the journal lives", "the user's state folder"),
    "read_only": ("further roots that are read and never written", "none"),
    "encodings": (
        "globs, and the encodings of the files that they cover: [encodings](../concepts/reading.md#encodings)",
        "by mark, `.editorconfig`, likelihood",
    ),
    "undo_bytes": (
        "bytes kept for undo: [what is kept](../concepts/journal.md#what-is-kept-for-undo)",
        "`undo_bytes` of the user's settings, else a quarter of the free disk",
    ),
    "dialect": ("the tool names and words of a family, by name, or a dialect of your own", "`handhold`"),
    "model": ('with `dialect="auto"`: the model\'s name, which decides', ""),
    "session": ("the conversation: what it has seen, and what it did", "a new one"),
    "policy": (
        "how much happens without a question: [modes](../concepts/policy.md#modes)",
        "`ask` with an approver, else `edit`",
    ),
    "rules": ("rules of your own: [rules](../concepts/policy.md#rules)", "none"),
    "settings": ("whether the user's file and the project's count, or which file instead of the user's", "`True`"),
    "approver": (
        "called with the change itself when the policy asks; answers `once`, `session`, `pattern` or `no`"
        " ([all answers](../start/python.md#approvals))",
        "nobody",
    ),
    "matching": (
        "`exact`, `safe` or `bold`: how far an edit goes to find its place: [edits](../concepts/edits.md)",
        "by dialect",
    ),
    "hints": ("whether replies say more than the dialect's source does", "by dialect"),
    "shell": (
        "what confines commands: `contained` (by us), `external` (by what we run in), `unconfined`",
        "`contained`",
    ),
    "network": (
        "whether commands have one, or the hosts that they may reach: [network](../concepts/commands.md#network)",
        "`False`",
    ),
    "secrets": (
        "whether commands may use files that the built-in secret rules name (`usable`) or not (`strict`):"
        " [secrets](../concepts/policy.md#secrets)",
        "`usable`",
    ),
    "hidden": ("folders and files that commands do not see, besides the usual ones", "none"),
    "memory": ("bytes that a command may take", "as many as there are"),
    "processes": ("processes that a command may have at once", "as many as there are"),
    "tracing": ("whether a command may trace its own processes, as `strace` and `gdb` do", "`False`"),
    "search_seconds": ("the longest that a search may take", "by dialect"),
    "searcher": ("another search engine than ours", "ours"),
    "converter": ("another decoder of images and PDFs than ours", "ours"),
}
RULES = {
    "name": "what it is called, where it decided something",
    "verdict": "`allow`, `ask` or `deny`",
    "verbs": "`read`, `change`, `create`, `delete`; or `run`; or `connect`",
    "because": "shown to whoever is refused or asked",
    "covers": "examples that it is about, at least one",
    "does_not_cover": "examples that it is not about, at least one",
    "paths": "globs, for the verbs about files",
    "commands": "the words that a command begins with, for `run`",
    "hosts": "names, for `connect`",
    "exclude": "paths that it leaves alone",
    "ignore_case": "takes `A` and `a` for one",
}
VARIABLES = {
    "HANDHOLD_CONFIG": "the user's settings, instead of the usual file; it must be there",
    "XDG_CONFIG_HOME": "where the user's settings are: `handhold/handhold.toml` below it, else below `~/.config`",
    "XDG_STATE_HOME": "where journals are: `handhold` below it, else below `~/.local/state`",
    "NO_COLOR": "no colours at the terminal; `TERM=dumb` says the same",
    "COLUMNS": "how wide the terminal is, whatever it says itself",
    "CODEX_HOME": "where `handhold install codex --user` finds Codex's settings, else `~/.codex`",
}
EXTRAS = {
    "all": "all of them",
    "anthropic": "the adapter for Anthropic's client",
    "codex": "reads shell commands, to tell a call of apply_patch from every other",
    "deepagents": "the backend for deepagents",
    "images": "shows images",
    "langchain": "the adapter for LangChain and LangGraph",
    "mcp": "the server: `handhold mcp`, `handhold serve`",
    "numpy": "builds the line index of a large file faster",
    "openai": "the adapter for OpenAI's client",
    "openai-agents": "the adapter for the OpenAI Agents SDK",
    "pdf": "shows the pages of a PDF",
    "pydantic-ai": "the adapter for Pydantic AI",
    "search": "ripgrep, where the system has none",
    "shell": "what confines commands, and what reads them before they run",
}
ERROR_SOURCES = {
    ErrorSource.MODEL: ("the call was wrong", "Hand the text to the model: it says what would be right."),
    ErrorSource.POLICY: (
        "the call was understood, and is not allowed",
        "Ask a person, or let the model say what it would do.",
    ),
    ErrorSource.TOOL: (
        "a limit or a defect of Handhold",
        "Do not score it against the model; if it is a defect, report it.",
    ),
    ErrorSource.INFRA: (
        "the machine: a disk, a permission, a lock",
        "Do not score it against the model. The same call, under the same id, may be sent again.",
    ),
}
# What the facts of an example are, by the name of the field.
FACTS: dict[str, Any] = {
    "path": "src/app.py",
    "paths": ("src/app.py",),
    "tool": "read_file",
    "known": ("read_file", "edit_file"),
    "argument": "offset",
    "got": "a text",
    "wanted": "a whole number",
    "call_id": "call-7",
    "because": "the reason stands here",
    "roots": ("/home/ann/shop",),
    "size": 80_000_000,
    "most": 67_108_864,
    "chars": 90_000,
    "medium": "pdf",
    "width": 40_000,
    "height": 40_000,
    "resource": "time",
    "count": 3,
    "offset": 900,
    "lines": (12, 40),
    "encoding": "cp1252",
    "characters": "→",
    "old": "total = 0",
    "matched_by": "exact",
    "kind": "fifo",
    "seen": ((1, 100),),
    "cell": "sum",
    "names": ("cell-1", "cell-4"),
    "line": 4,
    "text": "update src/app.py",
    "hunk": 2,
    "target": "src/real.py",
    "pattern": "[a-",
    "cursor": "c1-9f",
    "command": "make",
    "job": "job-3",
    "extra": "images",
    "asked": False,
    "approval": "a0d2babe",
    "done": ("#7",),
    "left": ("#6",),
    "verb": "undo",
    "seconds": 30.0,
}
EXAMPLES: dict[str, dict[str, Any]] = {  # where the name of a field means something else
    "UNKNOWN_TOOL": {"tool": "open_file"},
    "PAST_END": {"lines": 120},
    "PAGE_TOO_LONG": {"most": 60_000},
    "TOO_MANY_PIXELS": {"path": "map.png", "most": 100_000_000},
    "BROKEN_FILE": {"path": "report.pdf"},
    "ENCRYPTED": {"path": "report.pdf"},
    "NO_SHELL": {"because": "nothing confines commands here"},
    "TAKEN_BACK_PARTLY": {"because": "UNDO_CONFLICT", "paths": ("src/app.py",)},
    "SETTINGS_BROKEN": {"path": "handhold.toml"},
    "OUTSIDE_WORKSPACE": {"path": "/etc/passwd", "roots": ("/home/ann/shop",)},
    "NO_SUCH_PAGE": {"asked": ((9, 12),)},
    "BAD_PATCH": {"wanted": '"*** Update File: "'},
    "NO_SUCH_CELL": {"known": ("intro", "plot")},
    "NO_SUCH_JOB": {"known": ("job-1",)},
    "UNEXPECTED_COUNT": {"wanted": 1},
    "NOTHING_TO_UNDO": {"wanted": "no change of this session is left"},
    "NOTHING_ASKED": {"wanted": "a0d2babe"},
}


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    made = pages()
    different = [name for name, text in made.items() if written(DOCS / name) != text]
    for name in different:
        if check:
            was = written(DOCS / name).splitlines(keepends=True)
            sys.stdout.writelines(difflib.unified_diff(was, made[name].splitlines(keepends=True), name, name))
        else:
            (DOCS / name).parent.mkdir(exist_ok=True)
            (DOCS / name).write_text(made[name], encoding="utf-8")
    sys.stdout.write(f"{len(made)} pages, {len(different)} changed.\n")
    return check and bool(different)


def written(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def pages() -> dict[str, str]:
    """The name and the text of each."""
    dialects = {name: load_dialect(name) for name in DIALECTS}
    made = {
        "tools.md": page("Tools by dialect", tools(dialects)),
        **{f"tools-{name}.md": page(f"The dialect {name}", of_dialect(each)) for name, each in dialects.items()},
        "configuration.md": page("Configuration", configuration()),
        "cli.md": page("The command line", commands()),
        "errors.md": page("Error codes", codes()),
    }
    reference = {f"reference/{name}": text for name, text in made.items()}
    return {**reference, "llms.txt": contents(reference)}


def page(title: str, parts: Iterable[str]) -> str:
    return f"# {title}\n\n{MADE}\n" + "\n".join(part.rstrip("\n") + "\n" for part in parts)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [tuple(head), *map(tuple, rows)]
    lines.insert(1, ("---",) * len(lines[0]))
    return "".join(f"| {' | '.join(cell(each) for each in line)} |\n" for line in lines)


def cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def agreed(what: str, of_code: Iterable[str], of_words: Iterable[str]) -> None:
    lacking, idle = set(of_code) - set(of_words), set(of_words) - set(of_code)
    if lacking or idle:
        sys.exit(f"checks/reference.py: {what} without words: {sorted(lacking)}; words without {what}: {sorted(idle)}")


# --- the table of contents, for readers that are models


def contents(made: Mapping[str, str]) -> str:
    """One line a page, with its first sentence, in the order of the site."""
    site = tomllib.loads((PROJECT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    return "".join([f"# {site['site_name']}\n\n> {site['site_description']}\n\n", *listed(site["nav"], made)])


def listed(nav: Iterable[Mapping[str, Any]], made: Mapping[str, str]) -> Iterator[str]:
    for title, inside in ((title, inside) for entry in nav for title, inside in entry.items()):
        if isinstance(inside, str):
            told = first_sentence(made.get(inside) or written(DOCS / inside))
            yield f"- [{title}]({inside})" + (f": {told}\n" if told else "\n")
        else:
            yield f"\n## {title}\n\n"
            yield from listed(inside, made)


def first_sentence(text: str) -> str:
    paragraphs = (part.strip() for part in text.split("\n\n"))
    prose = next((part for part in paragraphs if re.match(r"[A-Z0-9`\[*]", part)), "")
    plainly = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(prose.split()))
    return re.split(r"(?<=\.)\s", plainly.replace("**", ""), maxsplit=1)[0]


# --- tools


def tools(dialects: Mapping[str, Dialect]) -> Iterator[str]:
    yield "The same operations under the names, schemas and words of nine families and designs."
    yield table(
        ("dialect", "tools", "matching", "hints", "a search takes", "from one command to the next lasts"),
        (
            (
                f"[`{name}`](tools-{name}.md)",
                ", ".join(code(spec.name) for spec in each.specs),
                code(each.options.matching),
                "yes" if each.options.hints else "no",
                f"{each.options.search_seconds:g} s at most",
                {"nothing": "nothing", "folder": "the folder", "exports": "folder and exports"}[
                    each.options.shell_persists
                ],
            )
            for name, each in dialects.items()
        ),
    )
    agreed("dialects", dialects, FOLLOWS)
    yield "## What each one follows, and for whom it is"
    yield (
        "Sources 000 to 004 are five documents: what each promises, and the test that holds it, is in "
        "[the contract](../contract.md)."
    )
    yield table(("dialect", "follows", "as of", "for"), ((code(name), *FOLLOWS[name]) for name in dialects))
    yield "## Which one a model knows best"
    yield (
        f'With `dialect="auto"` and `model="…"` the first row that fits decides; without one it is `{DEFAULT_DIALECT}`.'
    )
    yield table(
        ("in the model's name", "dialect", "because"),
        ((code(k.pattern), code(k.dialect), k.because) for k in MODEL_FAMILIES),
    )


NOTES = {
    "claude": (
        'The repeated sentence, "line number + tab" where replies have `→`, and the reminder after each read are '
        "the source's own words and stay. For today's words use the dialect [`anthropic`](tools-anthropic.md); "
        "`hints=True` adds notes on what to do next."
    ),
}


def of_dialect(dialect: Dialect) -> Iterator[str]:
    options = dialect.options
    yield (
        f"{len(dialect.specs)} tools, matching `{options.matching}`, hints {'on' if options.hints else 'off'}. "
        f"Names, descriptions and schemas as a model is given them: `handhold tools --dialect {dialect.name} --json`."
    )
    if dialect.name in NOTES:
        yield NOTES[dialect.name]
    for spec in dialect.specs:
        yield f"## {spec.name}"
        yield from of_tool(spec)
    yield "## Instructions"
    yield "What goes into the system prompt with these tools (`box.instructions`):"
    yield quoted(dialect.instructions)


def of_tool(spec: ToolSpec) -> Iterator[str]:
    kept = [name for name, said in spec.annotations.items() if said]
    yield f"{spec.title}. {', '.join(code(each) for each in kept) or 'No hints'}."
    yield quoted(spec.description)
    required = spec.input_schema.get("required", [])
    properties: Mapping[str, Mapping[str, Any]] = spec.input_schema["properties"]
    rows = (
        (code(n), kind(s), "yes" if n in required else default(s), s.get("description", ""))
        for n, s in properties.items()
    )
    yield table(("argument", "type", "needed", "meaning"), rows)


def quoted(text: str) -> str:
    """As it stands, whatever marks it holds."""
    return f"````markdown\n{text.strip()}\n````"


def kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(code(each) for each in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {schema.get('items', {}).get('type', 'anything')}"
    one = schema.get("type", "anything")
    return " or ".join(one) if isinstance(one, list) else one


def default(schema: Mapping[str, Any]) -> str:
    return f"no: {code(json.dumps(schema['default'], ensure_ascii=False))}" if "default" in schema else "no"


# --- settings


def configuration() -> Iterator[str]:
    names = list(inspect.signature(Toolbox.open).parameters)
    agreed("options", names, OPENS)
    yield "## Toolbox.open"
    memory = inspect.signature(Toolbox.in_memory).parameters
    left_out = ", ".join(code(name) for name in names if name not in memory)
    yield f"`Toolbox.in_memory(files, …)` takes the same, without {left_out}, on files in a dictionary."
    yield table(("option", "meaning", "default"), ((code(name), *OPENS[name]) for name in names))
    fields = list(inspect.signature(Rule).parameters)
    agreed("fields of a rule", fields, RULES)
    yield "## handhold.toml"
    keys = "`mode`, `undo_bytes` (as above; in the user's file only) and any number of `[[rule]]`"
    yield f"{keys}. Which file counts when: [settings](../concepts/policy.md#settings)."
    yield table(("field of a rule", "meaning"), ((code(name), RULES[name]) for name in fields))
    yield "## Environment"
    yield table(("variable", "meaning"), ((code(name), words) for name, words in VARIABLES.items()))
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    agreed("extras", extras, EXTRAS)
    yield "## Extras"
    yield "`pip install 'handhold[shell,search]'` installs several. The base needs `click` and nothing else."
    rows = (
        (code(name), EXTRAS[name], ", ".join(code(each.split(";")[0]) for each in extras[name]))
        for name in sorted(extras)
    )
    yield table(("extra", "meaning", "brings"), rows)


# --- the command line


def commands() -> Iterator[str]:
    context = click.Context(handhold)
    every = {name: handhold.get_command(context, name) for name in handhold.list_commands(context)}
    yield "Every command with its options. What they are for, with pictures: [from the command line](../start/cli.md)."
    status = re.findall(r"^ +(\d) +(.*)$", EXIT_STATUS_HELP, re.MULTILINE)
    yield table(("exit status", "meaning"), ((code(number), words) for number, words in status))
    yield table(("command", "meaning"), ((f"[`{name}`](#handhold-{name})", COMMANDS[name].help) for name in every))
    for name, command in every.items():
        assert command
        yield from of_command(command, f"handhold {name}")


def of_command(command: click.Command, way: str) -> Iterator[str]:
    context = click.Context(command, info_name=way)
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    yield f"## {way}"
    yield f"`{' '.join([way, *(each.make_metavar(context) for each in arguments), '[OPTIONS]'])}`"
    for part in inspect.cleandoc(command.help or "").split("\n\n"):
        plainly, _, as_it_is = part.partition("\b\n")  # Click's mark for lines that are not to be filled
        yield f"```text\n{as_it_is}\n```\n" if as_it_is else f"{plainly}\n"
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    if options:
        yield table(("option", "meaning"), ((spelled(each, context), meaning(each)) for each in options))


def spelled(option: click.Option, context: click.Context) -> str:
    names = ", ".join(code(each) for each in (*option.opts, *option.secondary_opts))
    return names if option.is_flag else f"{names} {code(option.make_metavar(context))}"


def meaning(option: click.Option) -> str:
    said = option.help or ""
    shown = f" Default: `{option.default}`." if option.show_default and not option.is_flag else ""
    return said + shown


# --- errors


def codes() -> Iterator[str]:
    yield "`reply.code` names the error, `reply.error_source` says who caused it, and `reply.data` has the facts."
    agreed("error sources", ErrorSource, ERROR_SOURCES)
    yield table(
        ("error source", "what it means", "what to do"), ((code(each), *ERROR_SOURCES[each]) for each in ErrorSource)
    )
    every = sorted({each.code: each for each in iter_error_types() if each.__module__ == errors.__name__}.items())
    yield (
        f"{len(every)} codes. A model reads them in its dialect; here are the plain words that each dialect falls "
        "back on, with made-up facts in them."
    )
    rows = (
        (
            code(name),
            code(each.error_source),
            ", ".join(code(f.name) for f in fields(each)),
            format_plain_error(example(each)),
        )
        for name, each in every
    )
    yield table(("code", "error source", "facts", "what is said, and what to do"), rows)
    yield "`INTERNAL` (source `tool`) is what adapters answer where Handhold itself failed: please report it."


def example(error: type[ToolError]) -> ToolError:
    needed = [field.name for field in fields(error) if not hasattr(error, field.name)]
    if lacking := [name for name in needed if name not in FACTS]:
        sys.exit(f"checks/reference.py: no example for {', '.join(lacking)} of {error.code}: add it to FACTS")
    return error(**({name: FACTS[name] for name in needed} | EXAMPLES.get(error.code, {})))


if __name__ == "__main__":
    sys.exit(main())
