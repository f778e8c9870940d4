"""Programs that copy or move files, and programs with an output file among their operands."""

import re

from handhold.core.policy.shell.simple_command import ProgramArguments, SimpleCommand
from handhold.core.policy.shell.words import Word, split_words

_COPY_VALUE_OPTIONS = split_words("-t --target-directory -S --suffix -m --mode -o --owner -g --group")
_TAR_EXEC_OPTIONS = split_words("""
    --checkpoint-action --to-command -I --use-compress-program --rsh-command --rmt-command -F --info-script
    --new-volume-script --index-file
""")
_TAR_VALUE_OPTIONS = split_words("""
    -f -C -X -T -b -N -g -K -L -V --file --directory --exclude --transform --exclude-from --files-from
    --one-top-level --strip-components -I -F
""")
_SQLITE_ESCAPE = re.compile(
    r"(?:^|\s)\.(?:sh|sy|o|l|re|ba|cd|ar|ex|im|sa|cl)|load_extension|writefile|readfile|edit\s*\(|\battach\b",
    re.IGNORECASE,
)


def analyze_copy(command: SimpleCommand) -> None:
    """cp, mv, ln, install: write the last operand or the target of -t; mv also deletes its sources."""
    options = ProgramArguments.parse(command.arguments, _COPY_VALUE_OPTIONS)
    targets = [value for value in options.get_values("-t", "--target-directory") if value]
    sources = options.operands if targets else options.operands[:-1]
    for source in sources:
        if command.name == "mv":
            command.check_write(source, deletes=True)
        elif command.name == "ln":
            _analyze_link(command, source, options)
        else:
            command.check_read(source)
    if command.name == "install" and options.has_option("-d", "--directory"):
        targets = list(options.operands)
    if command.name == "ln" and len(options.operands) == 1 and not targets:
        _analyze_link(command, options.operands[0], options)
    for target in targets or options.operands[-1:]:
        command.check_write(target)
        for source in sources:  # into a folder
            command.check_write(Word(f"{target.text}/{source.text.rstrip('/').rpartition('/')[2]}"))
    command.report_change()


def _analyze_link(command: SimpleCommand, source: Word, options: ProgramArguments) -> None:
    """Check where a link leads: one to the outside lets paths inside reach it. A symlink is relative to its folder."""
    text = source.text
    if options.has_option("-s", "--symbolic") and len(options.operands) == 2 and not text.startswith("/"):
        text = f"{options.operands[1].text.rpartition('/')[0] or '.'}/{text}"
    region = command.classify(text).region
    if region not in ("inside", "root", "temporary"):
        command.report(
            "unknown" if region == "unknown" else "dangerous",
            f"`{command.name}` makes a link to {source.display_text}, outside the workspace",
        )


def analyze_uniq(command: SimpleCommand) -> None:
    """`uniq input output`."""
    options = ProgramArguments.parse(command.arguments, frozenset(("-f", "-s", "-w")))
    for word in options.operands[:1]:
        command.check_read(word)
    for word in options.operands[1:]:
        command.check_write(word)


def analyze_dd(command: SimpleCommand) -> None:
    for word in command.arguments:
        name, _, value = word.text.partition("=")
        if name == "of":
            command.check_write(Word(value))
        elif name == "if":
            command.check_read(Word(value))
        elif not word.is_known and "=" not in word.text:
            command.report_unknown("what `dd` writes is not known before it runs")
    command.report_change()


def analyze_tar(command: SimpleCommand) -> None:
    words = list(command.arguments)
    if words and re.fullmatch(r"[A-Za-z]+", words[0].text):  # `tar xzf`
        words[0] = Word(f"-{words[0].text}")
    options = ProgramArguments.parse(words, _TAR_VALUE_OPTIONS)
    for name, value in options.options:
        option = ProgramArguments(((name, value),), ())
        if name != "--checkpoint" and option.has_option(*_TAR_EXEC_OPTIONS):
            command.report_dangerous(f"`{command.name} {name}` runs another program")
        if value is not None and option.has_option("-C", "--directory"):
            command.check_write(value)
        elif value is not None and option.has_option("-f", "--file"):
            if ":" in value.text:
                command.report_network()
            (
                command.check_read
                if options.has_option("-x", "-t", "--extract", "--get", "--list")
                else command.check_write
            )(value)
        elif value is not None:
            command.check_path_arguments((value,))
    if options.has_option("-P", "--absolute-names"):
        command.report_dangerous("`tar -P` writes to any path in its archive")
    for word in options.operands:
        command.check_read(word)
    if not options.has_option("-t", "--list"):
        command.report_change()


def analyze_rsync(command: SimpleCommand) -> None:
    options = ProgramArguments.parse(
        command.arguments, split_words("-e --rsh -f --filter --exclude --include -T --log-file")
    )
    if options.has_option("-e", "--rsh", "--rsync-path", "--daemon"):
        command.report_dangerous("`rsync` would run another program")
    if any(re.match(r"[^/]*:|rsync://", word.text) for word in options.operands):
        command.report_network("rsync")
    for word in options.operands[:-1]:
        command.check_read(word)
    for word in options.operands[-1:]:
        command.check_write(word, deletes=options.has_option("--delete"))
    command.report_change()


def analyze_sqlite(command: SimpleCommand) -> None:
    code = " ".join(word.text for word in command.arguments)
    if command.stdin and len(command.arguments) < 2:
        code += f" {command.stdin.text or ''}"
        if command.stdin.text is None:
            command.report_unknown("the input of `sqlite3` is not known before it runs")
    if _SQLITE_ESCAPE.search(code):
        command.report_dangerous("`sqlite3` would access more than its database")
    command.check_path_arguments(command.arguments[:1])
    command.report_change()
