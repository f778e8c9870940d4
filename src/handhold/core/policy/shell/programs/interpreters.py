"""Shells and interpreters: a script of the workspace is daily work, a text that nobody can judge is not."""

import re
from dataclasses import dataclass, replace

from handhold.core.policy.shell.call import Call, Options, sure
from handhold.core.policy.shell.programs.packages import name_only_loopback
from handhold.core.policy.shell.words import HOLE, Word, listed

SHELLS = listed("bash sh dash ash rbash")
OTHER_SHELLS = listed("zsh fish ksh mksh csh tcsh pwsh powershell nu xonsh elvish")
VIMS = ("view", "vimdiff", "rvim", "rview", "gvim", "gview", "vimtutor", "vim.basic", "vim.tiny", "vim.nox")
EDITORS = frozenset(("vi", "vim", "nvim", "emacs", "ed", "ex", *VIMS))


@dataclass(frozen=True)
class Interpreter:
    """`code`: the letters of options that are followed by code; `takes`: those with another value."""

    code: str
    takes: str = ""
    long: tuple[str, ...] = ()


INTERPRETERS: dict[str, Interpreter] = {
    "python": Interpreter("c", "WXQ"),
    "pypy": Interpreter("c", "WX"),
    "node": Interpreter(
        "ep", "rC", ("--eval", "--print", "--require", "--import", "--loader", "--experimental-loader")
    ),
    "perl": Interpreter("eEM", "Im"),
    "ruby": Interpreter("e", "rICF"),
    "php": Interpreter("rBRE", "dcz"),
    "lua": Interpreter("el", ""),
    "luajit": Interpreter("elj", ""),
    "Rscript": Interpreter("e", ""),
    "R": Interpreter("e", "f"),
    "julia": Interpreter("eEL", "pJ", ("--eval", "--print", "--load")),
    "tclsh": Interpreter("", ""),
    "expect": Interpreter("c", ""),
    "osascript": Interpreter("e", ""),
    "ghci": Interpreter("e", ""),
    "runghc": Interpreter("e", ""),
    "irb": Interpreter("re", ""),
    "groovy": Interpreter("e", ""),
    "scala": Interpreter("e", ""),
    "elixir": Interpreter("erS", "", ("--eval", "--rpc-eval")),
    "guile": Interpreter("cel", ""),
    "racket": Interpreter("e", ""),
    "sbcl": Interpreter("", "", ("--eval", "--load")),
    "gdb": Interpreter("x", "", ("-ex", "-iex", "--eval-command", "--command")),
    "lldb": Interpreter("os", "", ("--one-line", "--source")),
    "ed": Interpreter(""),
    "ex": Interpreter("cS"),
    "vi": Interpreter("cSsu", "", ("--cmd",)),
    **{name: Interpreter("cSsu", "", ("--cmd",)) for name in ("vim", *VIMS)},
    "nvim": Interpreter("clSsu", "", ("--cmd",)),
    "emacs": Interpreter("fl", "", ("--eval", "--load", "--funcall", "--script")),
    "dc": Interpreter("ef"),
    "m4": Interpreter(""),
    "gnuplot": Interpreter("e"),
}
NETWORK_MODULES = listed("""
    http.server SimpleHTTPServer smtpd webbrowser ftplib xmlrpc.server pyftpdlib uvicorn gunicorn pydoc
""")
OTHER_NAMES = {
    **dict.fromkeys(("gawk", "mawk", "nawk"), "awk"),
    **dict.fromkeys(("gtar", "bsdtar"), "tar"),
    **{f"g{name}": name for name in ("sed", "find")},
    "nodejs": "node",
}
CODE_MODULES = listed("timeit code pdb idlelib site runpy")


def shell(call: Call) -> None:
    """bash -c, a script, or whatever stands at its input."""
    if [word.text for word in call.arguments] in (["--version"], ["--help"]):
        return
    words = list(call.arguments)
    code = reads_input = False
    while words and words[0].text.startswith(("-", "+")) and words[0].text not in ("-", "--"):
        text = words.pop(0).text
        if text in ("--rcfile", "--init-file"):
            call.dangerous(f"`{call.name} {text}` runs another file")
            words = words[1:]
        elif not text.startswith("--"):
            code = code or "c" in text
            reads_input = reads_input or "s" in text
            if text[-1] in "oO":
                if text[-1] == "O" or words[:1] == [Word("posix")]:
                    call.unknown(f"`{call.name} {text}` changes how the rest is read")
                words = words[1:]
            if "i" in text or "l" in text:
                call.changes()  # it reads the user's files first; in the sandbox there are none
    if words and words[0].text in ("-", "--"):
        words.pop(0)
    sure(words[:1], call.name)
    if code:
        for word in words[:1]:
            call.code(word)
    elif words and not reads_input:
        _file(call, words[0])
        call.sweep(words[1:])
    else:
        _fed(call)


def _fed(call: Call) -> None:
    feed = call.feed
    if feed is not None and feed.text is not None:
        call.hands.script(feed.text, replace(call, feed=None))
    elif feed is not None and feed.file:
        _file(call, Word(feed.file))
    elif feed is not None:
        call.unknown(f"`{call.name}` would run what another program prints")
    else:
        call.unknown(f"`{call.name}` would wait for somebody to type")


def _file(call: Call, word: Word) -> None:
    """A script. What a substitution or an input hands over is no file that anybody could look at."""
    if word.text.startswith(("/dev/", "/proc/")) or HOLE in word.text:
        call.unknown(f"`{call.name}` would run code that is not known before it runs")
    call.reads(word)
    call.changes()


def other_shell(call: Call) -> None:
    options = Options.read(call.arguments, permute=False)
    if options.operands and not any(name == "-c" for name, _ in options.given) and call.feed is None:
        _file(call, options.operands[0])
    else:
        call.unknown(f"what `{call.name}` would run is written for another shell")


def interpreter(call: Call) -> None:
    name = plain_name(call.name)
    rules = INTERPRETERS[name]
    words = list(call.arguments)
    while words and words[0].text.startswith("-") and words[0].text != "-":
        text = words.pop(0).text
        if text == "--":
            break
        if text.partition("=")[0] in rules.long:
            call.unknown(f"code on the command line of `{call.name}` cannot be judged")
            return
        if text.startswith("--"):
            continue
        if (
            name in ("python", "pypy")
            and (found := re.match(r"-[a-zA-Z]*?m(.*)", text))
            and not re.match(r"-[a-zA-Z]*?[cWX]", text)
        ):
            _module(call, [Word(found[1]), *words] if found[1] else words)
            return
        for at, letter in enumerate(text[1:], 2):
            if letter in rules.code:
                call.unknown(f"code on the command line of `{call.name}` cannot be judged")
                return
            if letter in rules.takes:
                if at == len(text):
                    call.sweep(words[:1])
                    words = words[1:]
                break
    sure(words[:1], call.name)
    if words and words[0].text != "-":
        _script(call, words)
    elif call.feed is not None and call.feed.file and name in ("python", "node", "perl", "ruby"):
        _file(call, Word(call.feed.file))
    elif call.feed is not None:
        call.unknown(f"code at the input of `{call.name}` cannot be judged")
    elif call.arguments and not any(word.text == "-" for word in call.arguments):
        call.changes()  # `--version`, `--test`: there is nothing at its input
    else:
        call.unknown(f"`{call.name}` would wait for somebody to type")


def _script(call: Call, words: list[Word]) -> None:
    if re.match(r"https?://|npm:|jsr:", words[0].text):
        call.connects()
    elif words[0].text.startswith(HOLE) or call.name in EDITORS:
        call.unknown(f"what `{call.name}` would do is not known before it runs")
    else:
        _file(call, words[0])
    call.sweep(words[1:])


def _module(call: Call, words: list[Word]) -> None:
    sure(words[:1], call.name)
    module = words[0].text if words else HOLE
    if HOLE in module or module.split(".")[0] in CODE_MODULES:
        call.unknown(f"what `{call.name} -m` would run is not known before it runs")
    elif module in NETWORK_MODULES and name_only_loopback(words):
        call.unknown(f"who asks `{call.name} -m {module}` is not known before it runs")
    elif module in NETWORK_MODULES:
        call.connects(plain_name(call.name), "-m", module)
    elif module in ("pip", "pip3", "uv", "poetry", "pipx", "twine", "conda"):
        call.runs((Word(module), *words[1:]))
    else:
        call.sweep(words[1:])
        call.changes()


def plain_name(name: str) -> str:
    """python3.12 is python."""
    found = re.fullmatch(r"(python|pypy|pip|perl|ruby|lua|php|node|gcc|g\+\+|clang|clang\+\+)-?[\d.]+w?", name)
    return OTHER_NAMES.get(name, found[1] if found else name)


def eval_(call: Call) -> None:
    sure(call.arguments, "eval")
    call.code(Word(" ".join(word.text for word in call.arguments)))


def source(call: Call) -> None:
    """It runs in this shell; a file of the workspace is as good as a script of it."""
    if not call.arguments:
        return
    sure(call.arguments[:1], call.name)
    if "/" not in call.arguments[0].text and HOLE not in call.arguments[0].text:
        _file(call, Word(f"./{call.arguments[0].text}"))
    else:
        _file(call, call.arguments[0])
