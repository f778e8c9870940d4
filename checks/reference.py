"""Generates the reference pages from the code: tools by dialect, settings, commands, error codes.

    python checks/reference.py            write docs/reference/, and docs/llms.txt from the site's table of contents
    python checks/reference.py --check    report what would be written differently, and fail

What the code cannot say (what an option is for) is data in this file. The run fails if it is incomplete: if an
option has no description, or a description has no option.
"""

import difflib
import inspect
import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import click

from handhold.cli.commands import COMMANDS, EXIT_STATUS_HELP, handhold
from handhold.cli.options import ErrorJSON
from handhold.core import errors
from handhold.core.choices import DIALECTS
from handhold.core.errors import ErrorSource, ToolError
from handhold.core.policy.rules import Rule
from handhold.core.ports.dialect import Dialect
from handhold.core.problems import Problem
from handhold.core.results import ToolSpec
from handhold.dialects.error_messages import format_plain_error
from handhold.dialects.model_families import DEFAULT_DIALECT, MODEL_FAMILIES
from handhold.factory import load_dialect
from handhold.testing import iter_error_types
from handhold.toolbox import Toolbox

PROJECT = Path(__file__).parents[1]
DOCS = PROJECT / "docs"
MAX_COLUMNS = 100
MADE = "<!-- Made by checks/reference.py (`just reference`). -->\n"

# --- descriptions that are not in the code

FOLLOWS = {  # what a dialect follows, as of when, and for whom it is; sources are those of the contract
    "handhold": ("our own contract", "this version", "any model"),
    "claude": (
        "source 002: Read, Edit and MultiEdit verbatim, the other tools in its style",
        "undated; today's Claude Code has no LS, MultiEdit, BashOutput or KillShell",
        "Claude models in your own agent",
    ),
    "codex": (
        "source 000, section 5.3",
        "undated; today's Codex CLI has `exec_command` and `write_stdin` instead of `shell`",
        "GPT and Codex models",
    ),
    "deepagents": (
        "source 000, other sections",
        "undated",
        "agents built like deepagents; the framework itself has an [adapter](../how-to/frameworks.md)",
    ),
    "tiny": ("source 001, in Chinese", "undated", "agents of that published design"),
    "hello": ("source 003, in Chinese", "undated", "agents of that published design"),
    "mycode": ("source 004, in Chinese", "undated", "agents of that published design"),
    "anthropic": (
        "the vendor's tool types `text_editor_20250728` and `bash_20250124`",
        "July and January 2025",
        "Claude models through the vendor's API",
    ),
    "gemini": ("the vendor's documentation of its command line", "undated", "Gemini models"),
}
OPENS = {
    "root": ("a folder, or several; relative paths belong to the first", ""),
    "state": ("folder for the journal", "the user's state folder"),
    "read_only": ("additional roots that are never written", "none"),
    "encodings": (
        "encodings by glob: [encodings](../concepts/reading.md#encodings)",
        "by mark, `.editorconfig`, likelihood",
    ),
    "undo_bytes": (
        "bytes kept for undo: [what is kept](../concepts/journal.md#what-is-kept-for-undo)",
        "`undo_bytes` of the user's settings, else a quarter of the free disk",
    ),
    "dialect": ("a dialect's name, `auto`, or your own dialect", "`handhold`"),
    "model": ('the model\'s name, for `dialect="auto"`', ""),
    "session": ("name of the session; the same name continues it", "a new one"),
    "policy": (
        "what is allowed without asking: [modes](../concepts/policy.md#modes)",
        "the mode in the settings, else `ask` with an approver, else `edit`",
    ),
    "rules": ("your own rules: [rules](../concepts/policy.md#rules)", "none"),
    "settings": ("whether settings files are read, or the file to read instead of the user's", "`True`"),
    "approver": (
        "called with the change when the policy asks; returns `once`, `session`, `pattern` or `no`"
        " ([all answers](../start/python.md#approvals))",
        "nobody",
    ),
    "matching": (
        "how closely an edit must quote the file (`exact`, `safe`, `bold`): [edits](../concepts/edits.md)",
        "by dialect",
    ),
    "hints": ("add hints that the dialect's source does not have", "by dialect"),
    "check_syntax": ("tell which syntax errors a change made: [errors](../concepts/problems.md)", "`True`"),
    "checkers": ("programs whose new errors are told: [checkers](../concepts/problems.md#checkers)", "none"),
    "refuse_broken": ("`syntax` refuses a change that makes syntax errors", "nothing is refused"),
    "shell": (
        "what confines commands: `contained` (Handhold), `external` (what Handhold runs in) or `unconfined` (nothing)",
        "`contained`",
    ),
    "network": (
        "`True`, or the hosts that commands may reach: [network](../concepts/commands.md#network)",
        "`False`",
    ),
    "credentials": (
        "hosts at which git may log in: [credentials](../concepts/commands.md#credentials-for-git)",
        "none",
    ),
    "secrets": (
        "whether commands may use secret files (`usable`) or not (`strict`): [secrets](../concepts/policy.md#secrets)",
        "`usable`",
    ),
    "unredacted": ("rules of redaction to turn off: [rules](../concepts/policy.md#what-is-redacted)", "none"),
    "hidden": ("additional files and folders to hide from commands", "none"),
    "memory": ("memory limit of a command, in bytes", "none"),
    "processes": ("process limit of a command", "none"),
    "tracing": ("let commands trace their own processes (`strace`, `gdb`)", "`False`"),
    "search_seconds": ("time limit of a search", "by dialect"),
    "searcher": ("your own search backend", "built in"),
    "converter": ("your own decoder of images and PDFs", "built in"),
    "hub": ("the address of a hub that gets the journal: [hub](../hub.md)", "none"),
    "durable": ("who must have a change before it is acknowledged: `local` or `hub`", "`local`"),
}
RULES = {
    "name": "shown where the rule decided",
    "verdict": "`allow`, `ask` or `deny`",
    "verbs": "`read`, `change`, `create`, `delete`; or `run`; or `connect`",
    "because": "shown in refusals and questions",
    "covers": "examples that the rule covers, at least one",
    "does_not_cover": "examples that it does not cover, at least one",
    "paths": "globs, for the verbs about files",
    "commands": "the words that a command begins with, for `run`",
    "hosts": "names, for `connect`",
    "exclude": "globs of exceptions",
    "ignore_case": "ignore upper and lower case in paths; in Python only",
}
VARIABLES = {
    "HANDHOLD_CONFIG": "the user's settings file, instead of the default one; it must exist",
    "XDG_CONFIG_HOME": "where the user's settings are: `handhold/handhold.toml` below it, else below `~/.config`",
    "XDG_STATE_HOME": "where journals are: `handhold` below it, else below `~/.local/state`",
    "NO_COLOR": "turns colours off; so does `TERM=dumb`",
    "COLUMNS": "width of the terminal, overriding its own",
    "HANDHOLD_HUB_TOKEN": "the token for `--hub`",
    "HANDHOLD_HUB_TOKEN_FILE": "a file with the token for `--hub`; a new one in it is used without a restart",
    "HANDHOLD_HUB_DATABASE": "`--database` of `handhold hub`",
    "HANDHOLD_HUB_CONTENTS": "`--contents` of `handhold hub`",
    "CODEX_HOME": "where `handhold install codex --user` finds Codex's settings, else `~/.codex`",
}
EXTRAS = {
    "all": "all of them",
    "anthropic": "the adapter for Anthropic's client",
    "codex": "parses shell commands, to recognise apply_patch",
    "deepagents": "the backend for deepagents",
    "hub": "`handhold hub`",
    "images": "shows images",
    "langchain": "the adapter for LangChain and LangGraph",
    "mcp": "`handhold mcp`, `handhold serve`",
    "numpy": "builds the line index of a large file faster",
    "openai": "the adapter for OpenAI's client",
    "openai-agents": "the adapter for the OpenAI Agents SDK",
    "pdf": "shows the pages of a PDF",
    "pydantic-ai": "the adapter for Pydantic AI",
    "review": "the review page: `handhold review`",
    "search": "ripgrep, where the system has none",
    "otel": "[spans and metrics](../how-to/traces.md), by OpenTelemetry's API",
    "shell": "sandbox and parser of commands",
    "syntax": "parsers that find [errors after a change](../concepts/problems.md)",
}
ERROR_SOURCES = {
    ErrorSource.MODEL: ("the call was wrong", "Give the text to the model: it says what to do."),
    ErrorSource.POLICY: (
        "the call is not allowed",
        "Ask a person, or let the model describe the change.",
    ),
    ErrorSource.TOOL: (
        "a limit or a defect of Handhold",
        "Do not score it against the model. Report defects.",
    ),
    ErrorSource.INFRA: (
        "the machine: a disk, a permission, a lock",
        "Do not score it against the model. Retry with the same call id.",
    ),
}
# Sample facts for the examples, by field name.
FACTS: dict[str, Any] = {
    "message": "'(' was never closed",
    "path": "src/app.py",
    "fork": "try-1",
    "reasons": ("the same lines were changed in both",),
    "paths": ("src/app.py",),
    "kept": ("/home/ann/.handhold/shelf/0a1b-kept/3",),
    "tool": "read_file",
    "known": ("read_file", "edit_file"),
    "argument": "offset",
    "got": "a text",
    "wanted": "a whole number",
    "call_id": "call-7",
    "problems": (Problem("src/app.py", 3, 5, "'(' was never closed", "x = (1"),),
    "total": 1,
    "files": 1,
    "because": "REASON",
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
    "hub": "https://hub.example.org",
    "unsent_bytes": 140_000_000,
    "limit": 134_217_728,
}
HUB_EXAMPLE = {"because": "The hub at https://hub.example.org lacks 12 of 80 records."}
EXAMPLES: dict[str, dict[str, Any]] = {  # for errors whose field has another meaning
    "UNKNOWN_TOOL": {"tool": "open_file"},
    "PAST_END": {"lines": 120},
    "PAGE_TOO_LONG": {"most": 60_000},
    "TOO_MANY_PIXELS": {"path": "map.png", "most": 100_000_000},
    "BROKEN_FILE": {"path": "report.pdf"},
    "ENCRYPTED": {"path": "report.pdf"},
    "NO_SHELL": {"because": "nothing confines commands here"},
    "UNDONE_PARTLY": {"because": "UNDO_CONFLICT", "paths": ("src/app.py",)},
    "SETTINGS_BROKEN": {"path": "handhold.toml"},
    "OUTSIDE_WORKSPACE": {"path": "/etc/passwd", "roots": ("/home/ann/shop",)},
    "NO_SUCH_PAGE": {"asked": ((9, 12),)},
    "BAD_PATCH": {"wanted": '"*** Update File: "'},
    "NO_SUCH_CELL": {"known": ("intro", "plot")},
    "NO_SUCH_JOB": {"known": ("job-1",)},
    "UNEXPECTED_COUNT": {"wanted": 1},
    "NOT_RECORDED": {"path": "/home/ada", "because": "it is your home folder"},
    "NOTHING_TO_UNDO": {"wanted": "no change of this session is left"},
    "NO_PENDING_APPROVAL": {"wanted": "a0d2babe"},
    "HUB_UNREACHABLE": HUB_EXAMPLE,
    "HUB_BACKLOG_FULL": HUB_EXAMPLE,
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
    """The name and the text of each page."""
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


# --- the table of contents, for models


def contents(made: Mapping[str, str]) -> str:
    """One line per page with its first sentence, in the order of the site."""
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
    yield "The tools of each dialect, and its defaults."
    yield table(
        ("dialect", "tools", "matching", "hints", "search limit", "kept between commands"),
        (
            (
                f"[`{name}`](tools-{name}.md)",
                ", ".join(code(spec.name) for spec in each.specs),
                code(each.options.matching),
                "yes" if each.options.hints else "no",
                f"{each.options.search_seconds:g} s",
                {"nothing": "nothing", "folder": "the folder", "exports": "folder and exports"}[
                    each.options.shell_persists
                ],
            )
            for name, each in dialects.items()
        ),
    )
    agreed("dialects", dialects, FOLLOWS)
    yield "## What each one follows"
    yield (
        "Sources 000 to 004 are five documents: [what each promises](../contract.md). On vendors: "
        "[decision 14](../decisions/0014-dialects-of-two-vendors.md). All were read in November 2026."
    )
    yield table(("dialect", "follows", "as of", "for"), ((code(name), *FOLLOWS[name]) for name in dialects))
    yield "## Which one a model knows best"
    yield (f'`dialect="auto"` with `model="…"` selects the first row that matches the name, else `{DEFAULT_DIALECT}`.')
    yield table(
        ("in the model's name", "dialect", "because"),
        ((code(k.pattern), code(k.dialect), k.because) for k in MODEL_FAMILIES),
    )


def of_dialect(dialect: Dialect) -> Iterator[str]:
    yield f"{len(dialect.specs)} tools. As JSON: `handhold tools --dialect {dialect.name} --json`."
    for spec in dialect.specs:
        yield f"## {spec.name}"
        yield from of_tool(spec)
    yield "## Instructions"
    yield "For the system prompt (`box.instructions`):"
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
    """In a code fence, so that its markup is shown literally."""
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
    yield f"`Toolbox.in_memory(files, …)` takes the same options, except {left_out}."
    yield table(("option", "meaning", "default"), ((code(name), *OPENS[name]) for name in names))
    fields = list(inspect.signature(Rule).parameters)
    agreed("fields of a rule", fields, RULES)
    yield "## handhold.toml"
    keys = "`mode`, `secrets`, any number of `[[rule]]`; in the user's file `undo_bytes`, `undo_days`, `baseline_bytes`"
    keys += ", any number of [`[[checker]]`](../concepts/problems.md#checkers)"
    yield f"{keys}. Which file applies when: [settings](../concepts/policy.md#settings)."
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
    yield "Every command with its options. Guide: [from the command line](../start/cli.md)."
    status = re.findall(r"^ +(\d) +(.*)$", EXIT_STATUS_HELP, re.MULTILINE)
    yield table(("exit status", "meaning"), ((code(number), words) for number, words in status))
    yield (
        f"With `--json`, a command prints the fields listed below it; `?` marks those that can be missing. "
        f"After an error it prints `{format_json_shape(ErrorJSON)}`."
    )
    yield table(("command", "meaning"), ((f"[`{name}`](#handhold-{name})", COMMANDS[name].help) for name in every))
    shown: dict[str, str] = {}  # tables of options, and the first command that has each
    for name, command in every.items():
        assert command
        way = f"handhold {name}"
        yield from of_command(command, way)
        if isinstance(command, click.Group):
            module = import_module(COMMANDS[name].import_path.partition(":")[0])
            for inner_name, inner in command.commands.items():
                yield from of_command(inner, f"{way} {inner_name}", level=3)
                yield table_of_options(inner, f"{way} {inner_name}")
                if inner_name in module.JSON_OUTPUT:
                    yield fence(format_json_outputs({"": module.JSON_OUTPUT[inner_name]}))
        if options := "\n".join(options_of(command, way)):
            first = shown.setdefault(options, name)
            yield options if first == name else f"It has the options and the output of [`{first}`](#handhold-{first})."


def options_of(command: click.Command, way: str) -> Iterator[str]:
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    if options:
        yield table_of_options(command, way)
    if any("--json" in option.opts for option in command.params):
        module = import_module(COMMANDS[way.removeprefix("handhold ")].import_path.partition(":")[0])
        yield fence(format_json_outputs(module.JSON_OUTPUT))


def table_of_options(command: click.Command, way: str) -> str:
    context = click.Context(command, info_name=way)
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    return table(("option", "meaning"), ((spelled(each, context), meaning(each)) for each in options))


def fence(lines: Iterable[str]) -> str:
    return "```text\n" + "\n".join(lines) + "\n```"


def of_command(command: click.Command, way: str, level: int = 2) -> Iterator[str]:
    context = click.Context(command, info_name=way)
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    yield f"{'#' * level} {way}"
    words = [[each.make_metavar(context) for each in arguments], ["[OPTIONS]"]]
    if not command.context_settings.get("allow_interspersed_args", True):  # what follows an argument belongs to it
        words.reverse()
    yield f"`{' '.join([way, *words[0], *words[1]])}`"
    for part in inspect.cleandoc(command.help or "").split("\n\n"):
        plainly, _, as_it_is = part.partition("\b\n")  # Click's mark for lines that are not re-wrapped
        yield f"```text\n{as_it_is}\n```\n" if as_it_is else f"{plainly}\n"


def format_json_outputs(outputs: Mapping[str, Any]) -> Iterator[str]:
    for selected_by, shape in outputs.items():
        text = f"{' '.join(filter(None, ('--json', selected_by)))}: {format_json_shape(shape)}"
        yield from textwrap.wrap(text, MAX_COLUMNS, subsequent_indent="    ", break_long_words=False)


def format_json_shape(shape: Any) -> str:
    """The names of the fields, such as `{path, files: [{path, added}]}`; empty for a plain value."""
    if get_origin(shape) in (NotRequired, Union, UnionType):
        return next(filter(None, map(format_json_shape, get_args(shape))), "")
    if get_origin(shape) in (list, tuple):
        item = format_json_shape(get_args(shape)[0])
        return f"[{item}]" if item else ""
    if get_origin(shape) is dict:
        key, value = get_args(shape)
        return f"{{{key.__name__.upper()}: {item}}}" if (item := format_json_shape(value)) else ""
    if not (is_typeddict(shape) or is_dataclass(shape)):
        return ""
    optional: frozenset[str] = getattr(shape, "__optional_keys__", frozenset())
    named = ((name + "?" * (name in optional), format_json_shape(each)) for name, each in get_type_hints(shape).items())
    return f"{{{', '.join(f'{name}: {inside}' if inside else name for name, inside in named)}}}"


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
    yield table(("error source", "meaning", "what to do"), ((code(each), *ERROR_SOURCES[each]) for each in ErrorSource))
    every = sorted({each.code: each for each in iter_error_types() if each.__module__ == errors.__name__}.items())
    yield (f"{len(every)} codes, with an example of the plain message. Dialects word some of them differently.")
    rows = (
        (
            code(name),
            code(each.error_source),
            ", ".join(code(f.name) for f in fields(each)),
            format_plain_error(example(each)),
        )
        for name, each in every
    )
    yield table(("code", "error source", "facts", "message"), rows)
    yield "`INTERNAL` (source `tool`) means that Handhold itself failed: please report it."


def example(error: type[ToolError]) -> ToolError:
    needed = [field.name for field in fields(error) if not hasattr(error, field.name)]
    if lacking := [name for name in needed if name not in FACTS]:
        sys.exit(f"checks/reference.py: no example for {', '.join(lacking)} of {error.code}: add it to FACTS")
    return error(**({name: FACTS[name] for name in needed} | EXAMPLES.get(error.code, {})))


if __name__ == "__main__":
    sys.exit(main())
