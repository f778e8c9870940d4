"""Shells and interpreters: running a script of the workspace is routine, running unknown code is not."""

import re
from dataclasses import dataclass, replace

from handhold.core.policy.shell.programs.packages import has_only_loopback
from handhold.core.policy.shell.simple_command import ProgramArguments, SimpleCommand, require_single_words
from handhold.core.policy.shell.words import UNKNOWN, Word, split_words

SHELLS = split_words("bash sh dash ash rbash")
OTHER_SHELLS = split_words("zsh fish ksh mksh csh tcsh pwsh powershell nu xonsh elvish")
VIM_NAMES = ("view", "vimdiff", "rvim", "rview", "gvim", "gview", "vimtutor", "vim.basic", "vim.tiny", "vim.nox")
EDITORS = frozenset(("vi", "vim", "nvim", "emacs", "ed", "ex", *VIM_NAMES))


@dataclass(frozen=True)
class InterpreterSpec:
    """`code_letters`: letters of options that are followed by code. `value_letters`: those with another value."""

    code_letters: str
    value_letters: str = ""
    code_options: tuple[str, ...] = ()


INTERPRETERS: dict[str, InterpreterSpec] = {
    "python": InterpreterSpec("c", "WXQ"),
    "pypy": InterpreterSpec("c", "WX"),
    "node": InterpreterSpec(
        "ep", "rC", ("--eval", "--print", "--require", "--import", "--loader", "--experimental-loader")
    ),
    "perl": InterpreterSpec("eEM", "Im"),
    "ruby": InterpreterSpec("e", "rICF"),
    "php": InterpreterSpec("rBRE", "dcz"),
    "lua": InterpreterSpec("el", ""),
    "luajit": InterpreterSpec("elj", ""),
    "Rscript": InterpreterSpec("e", ""),
    "R": InterpreterSpec("e", "f"),
    "julia": InterpreterSpec("eEL", "pJ", ("--eval", "--print", "--load")),
    "tclsh": InterpreterSpec("", ""),
    "expect": InterpreterSpec("c", ""),
    "osascript": InterpreterSpec("e", ""),
    "ghci": InterpreterSpec("e", ""),
    "runghc": InterpreterSpec("e", ""),
    "irb": InterpreterSpec("re", ""),
    "groovy": InterpreterSpec("e", ""),
    "scala": InterpreterSpec("e", ""),
    "elixir": InterpreterSpec("erS", "", ("--eval", "--rpc-eval")),
    "guile": InterpreterSpec("cel", ""),
    "racket": InterpreterSpec("e", ""),
    "sbcl": InterpreterSpec("", "", ("--eval", "--load")),
    "gdb": InterpreterSpec("x", "", ("-ex", "-iex", "--eval-command", "--command")),
    "lldb": InterpreterSpec("os", "", ("--one-line", "--source")),
    "ed": InterpreterSpec(""),
    "ex": InterpreterSpec("cS"),
    "vi": InterpreterSpec("cSsu", "", ("--cmd",)),
    **{name: InterpreterSpec("cSsu", "", ("--cmd",)) for name in ("vim", *VIM_NAMES)},
    "nvim": InterpreterSpec("clSsu", "", ("--cmd",)),
    "emacs": InterpreterSpec("fl", "", ("--eval", "--load", "--funcall", "--script")),
    "dc": InterpreterSpec("ef"),
    "m4": InterpreterSpec(""),
    "gnuplot": InterpreterSpec("e"),
}
NETWORK_MODULES = split_words("""
    http.server SimpleHTTPServer smtpd webbrowser ftplib xmlrpc.server pyftpdlib uvicorn gunicorn pydoc
""")
PROGRAM_ALIASES = {
    **dict.fromkeys(("gawk", "mawk", "nawk"), "awk"),
    **dict.fromkeys(("gtar", "bsdtar"), "tar"),
    **{f"g{name}": name for name in ("sed", "find")},
    "nodejs": "node",
}
CODE_MODULES = split_words("timeit code pdb idlelib site runpy")


def analyze_shell(command: SimpleCommand) -> None:
    """bash -c, a script file, or a script from standard input."""
    if [word.text for word in command.arguments] in (["--version"], ["--help"]):
        return
    words = list(command.arguments)
    code = reads_input = False
    while words and words[0].text.startswith(("-", "+")) and words[0].text not in ("-", "--"):
        text = words.pop(0).text
        if text in ("--rcfile", "--init-file"):
            command.report_dangerous(f"`{command.name} {text}` runs another file")
            words = words[1:]
        elif not text.startswith("--"):
            code = code or "c" in text
            reads_input = reads_input or "s" in text
            if text[-1] in "oO":
                if text[-1] == "O" or words[:1] == [Word("posix")]:
                    command.report_unknown(f"`{command.name} {text}` changes how the rest is parsed")
                words = words[1:]
            if "i" in text or "l" in text:
                command.report_change()  # it reads the user's startup files first; the sandbox has none
    if words and words[0].text in ("-", "--"):
        words.pop(0)
    require_single_words(words[:1], command.name)
    if code:
        for word in words[:1]:
            command.analyze_code(word)
    elif words and not reads_input:
        _analyze_script_file(command, words[0])
        command.check_path_arguments(words[1:])
    else:
        _analyze_stdin_script(command)


def _analyze_stdin_script(command: SimpleCommand) -> None:
    stdin = command.stdin
    if stdin is not None and stdin.text is not None:
        command.analyzer.analyze_script(stdin.text, replace(command, stdin=None))
    elif stdin is not None and stdin.file:
        _analyze_script_file(command, Word(stdin.file))
    elif stdin is not None:
        command.report_unknown(f"`{command.name}` would run what another program prints")
    else:
        command.report_unknown(f"`{command.name}` would wait for input from a person")


def _analyze_script_file(command: SimpleCommand, word: Word) -> None:
    """Check a script file. A substitution or an input device cannot be inspected."""
    if word.text.startswith(("/dev/", "/proc/")) or UNKNOWN in word.text:
        command.report_unknown(f"`{command.name}` would run code that is not known before it runs")
    command.check_read(word)
    command.report_change()


def analyze_other_shell(command: SimpleCommand) -> None:
    options = ProgramArguments.parse(command.arguments, permute=False)
    if options.operands and not any(name == "-c" for name, _ in options.options) and command.stdin is None:
        _analyze_script_file(command, options.operands[0])
    else:
        command.report_unknown(f"`{command.name}` would run a script for another shell")


def analyze_interpreter(command: SimpleCommand) -> None:
    name = normalize_program_name(command.name)
    spec = INTERPRETERS[name]
    words = list(command.arguments)
    while words and words[0].text.startswith("-") and words[0].text != "-":
        text = words.pop(0).text
        if text == "--":
            break
        if text.partition("=")[0] in spec.code_options:
            command.report_unknown(f"code on the command line of `{command.name}` cannot be analyzed")
            return
        if text.startswith("--"):
            continue
        if (
            name in ("python", "pypy")
            and (found := re.match(r"-[a-zA-Z]*?m(.*)", text))
            and not re.match(r"-[a-zA-Z]*?[cWX]", text)
        ):
            _analyze_module(command, [Word(found[1]), *words] if found[1] else words)
            return
        for at, letter in enumerate(text[1:], 2):
            if letter in spec.code_letters:
                command.report_unknown(f"code on the command line of `{command.name}` cannot be analyzed")
                return
            if letter in spec.value_letters:
                if at == len(text):
                    command.check_path_arguments(words[:1])
                    words = words[1:]
                break
    require_single_words(words[:1], command.name)
    if words and words[0].text != "-":
        _analyze_script_arguments(command, words)
    elif command.stdin is not None and command.stdin.file and name in ("python", "node", "perl", "ruby"):
        _analyze_script_file(command, Word(command.stdin.file))
    elif command.stdin is not None:
        command.report_unknown(f"code on the standard input of `{command.name}` cannot be analyzed")
    elif command.arguments and not any(word.text == "-" for word in command.arguments):
        command.report_change()  # `--version`, `--test`: nothing is read from standard input
    else:
        command.report_unknown(f"`{command.name}` would wait for input from a person")


def _analyze_script_arguments(command: SimpleCommand, words: list[Word]) -> None:
    if re.match(r"https?://|npm:|jsr:", words[0].text):
        command.report_network()
    elif words[0].text.startswith(UNKNOWN) or command.name in EDITORS:
        command.report_unknown(f"what `{command.name}` would do is not known before it runs")
    else:
        _analyze_script_file(command, words[0])
    command.check_path_arguments(words[1:])


def _analyze_module(command: SimpleCommand, words: list[Word]) -> None:
    require_single_words(words[:1], command.name)
    module = words[0].text if words else UNKNOWN
    if UNKNOWN in module or module.split(".")[0] in CODE_MODULES:
        command.report_unknown(f"what `{command.name} -m` would run is not known before it runs")
    elif module in NETWORK_MODULES and has_only_loopback(words):
        command.report_unknown(f"what `{command.name} -m {module}` contacts is not known before it runs")
    elif module in NETWORK_MODULES:
        command.report_network(normalize_program_name(command.name), "-m", module)
    elif module in ("pip", "pip3", "uv", "poetry", "pipx", "twine", "conda"):
        command.analyze_nested((Word(module), *words[1:]))
    else:
        command.check_path_arguments(words[1:])
        command.report_change()


def normalize_program_name(name: str) -> str:
    """Strip versions and resolve aliases: python3.12 is python."""
    found = re.fullmatch(r"(python|pypy|pip|perl|ruby|lua|php|node|gcc|g\+\+|clang|clang\+\+)-?[\d.]+w?", name)
    return PROGRAM_ALIASES.get(name, found[1] if found else name)


def analyze_eval(command: SimpleCommand) -> None:
    require_single_words(command.arguments, "eval")
    command.analyze_code(Word(" ".join(word.text for word in command.arguments)))


def analyze_source(command: SimpleCommand) -> None:
    """Treat a sourced file of the workspace like a script, although it runs in this shell."""
    if not command.arguments:
        return
    require_single_words(command.arguments[:1], command.name)
    if "/" not in command.arguments[0].text and UNKNOWN not in command.arguments[0].text:
        _analyze_script_file(command, Word(f"./{command.arguments[0].text}"))
    else:
        _analyze_script_file(command, command.arguments[0])
