"""Programs that move files about, and those that hide a second file among their operands."""

import re

from handhold.core.policy.shell.call import Call, Options
from handhold.core.policy.shell.words import Word, listed

_INTO = listed("-t --target-directory -S --suffix -m --mode -o --owner -g --group")
_TAR_RUNS = listed("""
    --checkpoint-action --to-command -I --use-compress-program --rsh-command --rmt-command -F --info-script
    --new-volume-script --index-file
""")
_TAR_TAKES = listed("""
    -f -C -X -T -b -N -g -K -L -V --file --directory --exclude --transform --exclude-from --files-from
    --one-top-level --strip-components -I -F
""")
_BEYOND = re.compile(
    r"(?:^|\s)\.(?:sh|sy|o|l|re|ba|cd|ar|ex|im|sa|cl)|load_extension|writefile|readfile|edit\s*\(|\battach\b",
    re.IGNORECASE,
)


def copy(call: Call) -> None:
    """cp, mv, ln, install: the last operand, or what -t names, is written. What moves away is gone."""
    options = Options.read(call.arguments, _INTO)
    into = [value for value in options.named("-t", "--target-directory") if value]
    sources = options.operands if into else options.operands[:-1]
    for source in sources:
        if call.name == "mv":
            call.writes(source, whole=True)
        elif call.name == "ln":
            _linked(call, source, options)
        else:
            call.reads(source)
    if call.name == "install" and options.has("-d", "--directory"):
        into = list(options.operands)
    if call.name == "ln" and len(options.operands) == 1 and not into:
        _linked(call, options.operands[0], options)
    for target in into or options.operands[-1:]:
        call.writes(target)
        for source in sources:  # into a folder
            call.writes(Word(f"{target.text}/{source.text.rstrip('/').rpartition('/')[2]}"))
    call.changes()


def _linked(call: Call, source: Word, options: Options) -> None:
    """A link to the outside makes paths of the inside lead there. A symbolic one is read from where it lies."""
    text = source.text
    if options.has("-s", "--symbolic") and len(options.operands) == 2 and not text.startswith("/"):
        text = f"{options.operands[1].text.rpartition('/')[0] or '.'}/{text}"
    region = call.where(text).region
    if region not in ("inside", "root", "temporary"):
        call.says(
            "unknown" if region == "unknown" else "dangerous", f"`{call.name}` makes a link to {source.shown}, outside"
        )


def uniq(call: Call) -> None:
    """`uniq from to`."""
    options = Options.read(call.arguments, frozenset(("-f", "-s", "-w")))
    for word in options.operands[:1]:
        call.reads(word)
    for word in options.operands[1:]:
        call.writes(word)


def dd(call: Call) -> None:
    for word in call.arguments:
        name, _, value = word.text.partition("=")
        if name == "of":
            call.writes(Word(value))
        elif name == "if":
            call.reads(Word(value))
        elif not word.known and "=" not in word.text:
            call.unknown("what `dd` writes is not known before it runs")
    call.changes()


def tar(call: Call) -> None:
    words = list(call.arguments)
    if words and re.fullmatch(r"[A-Za-z]+", words[0].text):  # `tar xzf`
        words[0] = Word(f"-{words[0].text}")
    options = Options.read(words, _TAR_TAKES)
    for name, value in options.given:
        one = Options(((name, value),), ())
        if name != "--checkpoint" and one.has(*_TAR_RUNS):
            call.dangerous(f"`{call.name} {name}` runs another program")
        if value is not None and one.has("-C", "--directory"):
            call.writes(value)
        elif value is not None and one.has("-f", "--file"):
            if ":" in value.text:
                call.connects()
            (call.reads if options.has("-x", "-t", "--extract", "--get", "--list") else call.writes)(value)
        elif value is not None:
            call.sweep((value,))
    if options.has("-P", "--absolute-names"):
        call.dangerous("`tar -P` writes wherever its archive says")
    for word in options.operands:
        call.reads(word)
    if not options.has("-t", "--list"):
        call.changes()


def rsync(call: Call) -> None:
    options = Options.read(call.arguments, listed("-e --rsh -f --filter --exclude --include -T --log-file"))
    if options.has("-e", "--rsh", "--rsync-path", "--daemon"):
        call.dangerous("`rsync` would run another program")
    if any(re.match(r"[^/]*:|rsync://", word.text) for word in options.operands):
        call.connects("rsync")
    for word in options.operands[:-1]:
        call.reads(word)
    for word in options.operands[-1:]:
        call.writes(word, whole=options.has("--delete"))
    call.changes()


def sqlite(call: Call) -> None:
    code = " ".join(word.text for word in call.arguments)
    if call.feed and len(call.arguments) < 2:
        code += f" {call.feed.text or ''}"
        if call.feed.text is None:
            call.unknown("what `sqlite3` is told at its input is not known before it runs")
    if _BEYOND.search(code):
        call.dangerous("`sqlite3` would reach beyond its database")
    call.sweep(call.arguments[:1])
    call.changes()
