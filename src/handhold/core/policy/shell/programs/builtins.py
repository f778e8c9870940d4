"""Shell builtins: they change the working directory, variables, or how the rest is parsed."""

import re
from itertools import pairwise

from handhold.core.policy.shell.grammar import AnalysisError
from handhold.core.policy.shell.simple_command import ProgramArguments, SimpleCommand, require_single_words
from handhold.core.policy.shell.words import UNKNOWN, UNKNOWN_NAME, Word, split_words

_NAME = re.compile(r"[A-Za-z_]\w*")
_SAFE_SHOPT_NAMES = split_words(
    "globstar nullglob dotglob failglob nocaseglob nocasematch inherit_errexit checkwinsize"
)
_SAFE_SET_LETTERS = re.compile(r"[-+][euxvfCaho]*")
_SAFE_SET_NAMES = split_words("pipefail errexit nounset xtrace noglob noclobber verbose")
_READ_VALUE_OPTIONS = split_words("-p -d -n -N -t -u -i -a")


def analyze_cd(command: SimpleCommand) -> None:
    words = [word for word in command.arguments if not re.fullmatch(r"-[LPen@]+|--", word.text)]
    require_single_words(words, command.name)
    if not words:
        command.analyzer.change_directory(command.context.home or UNKNOWN)
    elif words[0].text == "-" or re.fullmatch(r"[-+]\d+", words[0].text):
        command.analyzer.change_directory(UNKNOWN)
    else:
        command.check_read(words[0])
        command.analyzer.change_directory(words[0].text)


def analyze_popd(command: SimpleCommand) -> None:
    command.analyzer.change_directory(UNKNOWN)


def analyze_test(command: SimpleCommand) -> None:
    for operator, word in pairwise(command.arguments):
        if operator.text in ("-v", "-R"):
            command.analyzer.check_variable_name(word.text)


def analyze_declaration(command: SimpleCommand) -> None:
    """export, declare, local, readonly, typeset, unset."""
    options = [word.text for word in command.arguments if word.text.startswith("-")]
    if any("n" in each or "i" in each for each in options if command.name not in ("export", "unset", "readonly")):
        raise AnalysisError("one of its variables refers to another, or to arithmetic")
    for word in command.arguments:
        name, equals, value = word.text.partition("=")
        if _NAME.match(name):
            command.analyzer.check_variable_name(word.text if "[" in name else name)
        if not _NAME.match(name):
            if not word.text.startswith("-") and (not word.is_known or re.search("[*?]", word.text)):
                command.report_unknown("which variable it sets is not known before it runs")
            continue
        if command.name == "unset":
            command.analyzer.assign_variable(name.partition("[")[0], Word(UNKNOWN))
        elif equals and not word.is_known:
            command.analyzer.assign_variable(name, Word(value))


def analyze_read(command: SimpleCommand) -> None:
    """read, mapfile, getopts: set variables from the input."""
    value_options = _READ_VALUE_OPTIONS if command.name == "read" else _READ_VALUE_OPTIONS | split_words("-O -s -C -c")
    options = ProgramArguments.parse(command.arguments, value_options)
    if command.name in ("mapfile", "readarray") and options.has_option("-C"):
        command.report_dangerous(f"`{command.name} -C` runs code")
    words = [*options.operands, *(value for value in options.get_values("-a") if value)]
    if command.name == "getopts":
        words = words[1:2]
    value = UNKNOWN_NAME if command.stdin is not None and command.stdin.is_names_only else UNKNOWN
    for word in words or [Word("REPLY")]:
        if not word.is_known:
            command.report_unknown("which variable it sets is not known before it runs")
        else:
            command.analyzer.check_variable_name(word.text)
            command.analyzer.assign_variable(word.text.partition("[")[0], Word(value))


def analyze_printf(command: SimpleCommand) -> None:
    """printf -v sets a variable."""
    words = command.arguments
    if words and words[0].text.startswith("-v"):
        variable = Word(words[0].text[2:]) if words[0].text != "-v" else words[1] if words[1:] else Word(UNKNOWN)
        command.analyzer.check_variable_name(variable.text)
        if not variable.is_known:
            command.report_unknown("which variable it sets is not known before it runs")
        command.analyzer.assign_variable(variable.text.partition("[")[0], Word(UNKNOWN))
    elif words and words[0].can_split:
        command.report_unknown("what `printf` would do is not known before it runs")


def analyze_let(command: SimpleCommand) -> None:
    for word in command.arguments:
        command.analyzer.evaluate_arithmetic(word.text)


def analyze_alias(command: SimpleCommand) -> None:
    if command.name == "unalias" or any("=" in word.text or not word.is_known for word in command.arguments):
        command.report_unknown("an alias changes the meaning of later words")


def analyze_shopt(command: SimpleCommand) -> None:
    names = [word.text for word in command.arguments if not word.text.startswith("-")]
    if names and not set(names) <= _SAFE_SHOPT_NAMES:
        command.report_unknown(f"`shopt {names[0]}` changes how the rest is parsed")


def analyze_set(command: SimpleCommand) -> None:
    words = [word.text for word in command.arguments]
    while words and words[0] != "--":
        text = words.pop(0)
        if text in ("-o", "+o") or re.fullmatch(r"[-+][a-zA-Z]+o", text):
            if words and words[0] not in _SAFE_SET_NAMES:
                command.report_unknown("`set` changes how the rest is parsed")
            words = words[1:]
        if not _SAFE_SET_LETTERS.fullmatch(text) and text.startswith(("-", "+")):
            command.report_unknown("`set` changes how the rest is parsed")


def analyze_trap(command: SimpleCommand) -> None:
    words = [word for word in command.arguments if word.text not in ("-l", "-p", "--")]
    if len(words) > 1 and words[0].text not in ("-", ""):
        command.analyze_code(words[0])


def analyze_rebinding(command: SimpleCommand) -> None:
    """enable, hash -p, complete, compgen, bind, fc, jobs -x: they can run something under another name."""
    if command.arguments and not (command.name == "hash" and all(word.text == "-r" for word in command.arguments)):
        command.report_dangerous(f"`{command.name}` changes what a name runs, or runs code")


def analyze_disown(command: SimpleCommand) -> None:
    command.report_dangerous("`disown` lets a process outlive the command")
