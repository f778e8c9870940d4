"""What the shell does itself: where it stands, what its variables hold, how it reads what follows."""

import re
from itertools import pairwise

from handhold.core.policy.shell.call import Call, Options, sure
from handhold.core.policy.shell.grammar import Unsure
from handhold.core.policy.shell.words import HOLE, NAME, Word, listed

_NAME = re.compile(r"[A-Za-z_]\w*")
_PLAIN_OPTIONS = listed("globstar nullglob dotglob failglob nocaseglob nocasematch inherit_errexit checkwinsize")
_SET_LETTERS = re.compile(r"[-+][euxvfCaho]*")
_SET_NAMES = listed("pipefail errexit nounset xtrace noglob noclobber verbose")
_READ_TAKES = listed("-p -d -n -N -t -u -i -a")


def cd(call: Call) -> None:
    words = [word for word in call.arguments if not re.fullmatch(r"-[LPen@]+|--", word.text)]
    sure(words, call.name)
    if not words:
        call.hands.moved(call.standing.home or HOLE)
    elif words[0].text == "-" or re.fullmatch(r"[-+]\d+", words[0].text):
        call.hands.moved(HOLE)
    else:
        call.reads(words[0])
        call.hands.moved(words[0].text)


def popd(call: Call) -> None:
    call.hands.moved(HOLE)


def test(call: Call) -> None:
    for operator, word in pairwise(call.arguments):
        if operator.text in ("-v", "-R"):
            call.hands.check_name(word.text)


def declares(call: Call) -> None:
    """export, declare, local, readonly, typeset, unset."""
    options = [word.text for word in call.arguments if word.text.startswith("-")]
    if any("n" in each or "i" in each for each in options if call.name not in ("export", "unset", "readonly")):
        raise Unsure("a variable of it stands for another, or for a sum")
    for word in call.arguments:
        name, equals, value = word.text.partition("=")
        if _NAME.match(name):
            call.hands.check_name(word.text if "[" in name else name)
        if not _NAME.match(name):
            if not word.text.startswith("-") and (not word.known or re.search("[*?]", word.text)):
                call.unknown("which variable it sets is not known before it runs")
            continue
        if call.name == "unset":
            call.hands.assigned(name.partition("[")[0], Word(HOLE))
        elif equals and not word.known:
            call.hands.assigned(name, Word(value))


def reads_variables(call: Call) -> None:
    """read, mapfile, getopts: variables take what is at the input."""
    takes = _READ_TAKES if call.name == "read" else _READ_TAKES | listed("-O -s -C -c")
    options = Options.read(call.arguments, takes)
    if call.name in ("mapfile", "readarray") and options.has("-C"):
        call.dangerous(f"`{call.name} -C` runs code")
    words = [*options.operands, *(value for value in options.named("-a") if value)]
    if call.name == "getopts":
        words = words[1:2]
    value = NAME if call.feed is not None and call.feed.names else HOLE
    for word in words or [Word("REPLY")]:
        if not word.known:
            call.unknown("which variable it sets is not known before it runs")
        else:
            call.hands.check_name(word.text)
            call.hands.assigned(word.text.partition("[")[0], Word(value))


def prints(call: Call) -> None:
    """printf -v sets a variable."""
    words = call.arguments
    if words and words[0].text.startswith("-v"):
        named = Word(words[0].text[2:]) if words[0].text != "-v" else words[1] if words[1:] else Word(HOLE)
        call.hands.check_name(named.text)
        if not named.known:
            call.unknown("which variable it sets is not known before it runs")
        call.hands.assigned(named.text.partition("[")[0], Word(HOLE))
    elif words and words[0].loose:
        call.unknown("what `printf` would do is not known before it runs")


def let(call: Call) -> None:
    for word in call.arguments:
        call.hands.evaluate(word.text)


def alias(call: Call) -> None:
    if call.name == "unalias" or any("=" in word.text or not word.known for word in call.arguments):
        call.unknown("an alias changes what later words mean")


def shopt(call: Call) -> None:
    names = [word.text for word in call.arguments if not word.text.startswith("-")]
    if names and not set(names) <= _PLAIN_OPTIONS:
        call.unknown(f"`shopt {names[0]}` changes how the rest is read")


def sets(call: Call) -> None:
    words = [word.text for word in call.arguments]
    while words and words[0] != "--":
        text = words.pop(0)
        if text in ("-o", "+o") or re.fullmatch(r"[-+][a-zA-Z]+o", text):
            if words and words[0] not in _SET_NAMES:
                call.unknown("`set` changes how the rest is read")
            words = words[1:]
        if not _SET_LETTERS.fullmatch(text) and text.startswith(("-", "+")):
            call.unknown("`set` changes how the rest is read")


def trap(call: Call) -> None:
    words = [word for word in call.arguments if word.text not in ("-l", "-p", "--")]
    if len(words) > 1 and words[0].text not in ("-", ""):
        call.code(words[0])


def rarely(call: Call) -> None:
    """enable, hash -p, complete, compgen, bind, fc, jobs -x: ways to run something by another name."""
    if call.arguments and not (call.name == "hash" and all(word.text == "-r" for word in call.arguments)):
        call.dangerous(f"`{call.name}` changes what a name runs, or runs code")


def disown(call: Call) -> None:
    call.dangerous("`disown` is meant to let something outlive the command")
