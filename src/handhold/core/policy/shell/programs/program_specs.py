"""Programs that one table entry describes: what their operands are, and which options do more than read."""

import re
from dataclasses import dataclass, replace
from typing import Literal

from handhold.core.policy.shell.simple_command import ProgramArguments, SimpleCommand
from handhold.core.policy.shell.words import Word, split_words

Operands = Literal["texts", "paths", "a text, then paths", "changed", "a text, then changed", "gone", "any"]

NO_OPTIONS: frozenset[str] = frozenset()
_PAGER_MOVE = re.compile(r"\+{1,2}(?:[0-9]*[gGpF%]?|[/?][^\x00-\x1f\x7f]*)")
"""Startup commands of a pager that only move within the file. A line break would start another command."""


@dataclass(frozen=True)
class ProgramSpec:
    """`value_options` take the next word as their value. `output_options` name a file to write. `exec_options` run
    or load code. `in_place_options` make the program write the files it reads."""

    operands: Operands = "paths"
    value_options: frozenset[str] = NO_OPTIONS
    output_options: frozenset[str] = NO_OPTIONS
    exec_options: frozenset[str] = NO_OPTIONS
    in_place_options: frozenset[str] = NO_OPTIONS
    text_options: frozenset[str] = NO_OPTIONS  # options whose value is never a path
    keystroke_options: frozenset[str] = NO_OPTIONS  # pager options whose value is executed like typed keys, as `+…` is

    def analyze(self, command: SimpleCommand) -> None:
        options = ProgramArguments.parse(
            command.arguments, self.value_options | self.output_options | self.text_options
        )
        for name, value in options.options:
            self._analyze_option(command, name, value)
        if self.keystroke_options:
            self._check_startup_keys(command, [word.text for word in options.operands if word.text.startswith("+")])
            self._check_startup_keys(
                command, [f"+/{value.text}" for value in options.get_values(*self.keystroke_options) if value]
            )
            options = replace(options, operands=tuple(w for w in options.operands if not w.text.startswith("+")))
        if any(
            word.text.partition("=")[0] in self.exec_options for word in command.arguments
        ):  # long options with a single dash
            command.report_dangerous(f"`{command.name}` runs another program through an option")
        self._analyze_operands(command, options.operands, has_text_option=options.has_option(*self.text_options))
        if options.has_option(*self.in_place_options):
            for word in options.operands[
                self.operands.startswith("a text") and not options.has_option(*self.text_options) :
            ]:
                command.check_write(word)

    def _check_startup_keys(self, command: SimpleCommand, keys: list[str]) -> None:
        if not all(_PAGER_MOVE.fullmatch(each) for each in keys):
            command.report_dangerous(f"`{command.name}` would run one of its own commands when it starts")

    def _analyze_option(self, command: SimpleCommand, name: str, value: Word | None) -> None:
        option = ProgramArguments(((name, value),), ())
        if option.has_option(*self.exec_options):
            command.report_dangerous(f"`{command.name} {name}` runs another program")
        if value is None or option.has_option(*self.text_options):
            return
        if option.has_option(*self.output_options):
            command.check_write(value)
        else:
            command.check_path_arguments((value,))

    def _analyze_operands(self, command: SimpleCommand, words: tuple[Word, ...], *, has_text_option: bool) -> None:
        if self.operands.startswith("a text") and not has_text_option:
            words = words[1:]
        match self.operands:
            case "texts":
                pass
            case "paths" | "a text, then paths":
                for word in words:
                    command.check_read(word)
            case "changed" | "a text, then changed":
                for word in words:
                    command.check_write(word)
                command.report_change()
            case "gone":
                for word in words:
                    command.check_write(word, deletes=True)
                command.report_change()
            case "any":
                command.check_path_arguments(words)
                command.report_change()


def _map_names(names: str, spec: ProgramSpec) -> dict[str, ProgramSpec]:
    return {name: spec for name in names.split()}


GREP = ProgramSpec(
    "a text, then paths",
    value_options=split_words("-A -B -C -m -d -D --include --exclude --exclude-dir --color --context --after-context"),
    text_options=split_words("-e --regexp --include --exclude --exclude-dir"),
)
TEXT_COLUMNS = ProgramSpec(value_options=split_words("-d -f -c -b -w -t -s -1 -2 -j -o -n -N -e -l"))
PACKAGE_QUERY = ProgramSpec(
    "texts",
    exec_options=split_words(
        "-i --install -r --remove -P --purge -U -e --unpack --configure --root --pre-invoke --post-invoke"
    ),
)
PAGER = ProgramSpec(
    value_options=split_words("-p --pattern"),
    output_options=split_words("-o -O --log-file --LOG-FILE"),
    exec_options=split_words("-k --lesskey-file --lesskey-src --lesskey-content"),
    text_options=split_words("-p --pattern"),
    keystroke_options=split_words("-p --pattern"),
)
DIFF = ProgramSpec(
    value_options=split_words("-U -C -x -X -I --exclude --label -L"),
    text_options=split_words("-x --exclude --label -L -I"),
    exec_options=split_words("--diff-program"),
    output_options=split_words("-o"),
)
SORT = ProgramSpec(
    value_options=split_words("-k -t -S -T --key --field-separator --buffer-size --parallel"),
    output_options=split_words("-o --output"),
    exec_options=split_words("--compress-program"),
    text_options=split_words("-t --field-separator"),
)
RIPGREP = ProgramSpec(
    "a text, then paths",
    value_options=split_words("-t --type -T --type-not -A -B -C -m -M -j -E --max-depth --sort --sortr --colors -d"),
    text_options=split_words("-e --regexp -g --glob --iglob -r --replace"),
    exec_options=split_words("--pre --hostname-bin -z --search-zip"),
)
ACK = ProgramSpec(
    "a text, then paths",
    value_options=split_words("-A -B -C -m -G --ignore --ignore-dir"),
    text_options=split_words("-G --ignore"),
    exec_options=split_words("--pager"),
)
JQ = ProgramSpec(
    "a text, then paths",
    value_options=split_words("--indent --tab"),
    text_options=split_words("--arg --argjson -f --from-file"),
)
FILE_CREATION = ProgramSpec("changed", value_options=split_words("-m --mode -d --date -r --reference -t -s --size"))
PATCH = ProgramSpec(
    "changed",
    value_options=split_words("-p -i --input -d --directory -o -r -B -Y -z -D -F -g -V"),
    output_options=split_words("-o --output -r --reject-file -d --directory"),
)
MANUAL = ProgramSpec("texts", exec_options=split_words("-P --pager -H --html --browser -C --config-file -X"))
ZIP = ProgramSpec(
    "any",
    exec_options=split_words("-TT --unzip-command"),
    value_options=split_words("-x -i"),
    output_options=split_words("-O --out -b"),
)

PROGRAMS: dict[str, ProgramSpec] = {
    **_map_names(
        "echo true false : seq expr sleep basename yes uname whoami id groups arch nproc tty", ProgramSpec("texts")
    ),
    **_map_names(
        "which whereis type printenv locale getconf lscpu lsblk free ps pgrep cal factor", ProgramSpec("texts")
    ),
    **_map_names(
        "tr exit return break continue shift wait times jobs logname users who w hostname", ProgramSpec("texts")
    ),
    **_map_names(
        "apropos whatis reset stty ulimit umask getopt dpkg-query pkg-config vmstat lsof ss", ProgramSpec("texts")
    ),
    **_map_names("numfmt tput clear uptime dirname help pwd dirs caller logout suspend", ProgramSpec("texts")),
    **_map_names("dpkg rpm", PACKAGE_QUERY),
    **_map_names(
        "date", ProgramSpec("texts", exec_options=split_words("-s --set"), value_options=split_words("-d --date -f -r"))
    ),
    **_map_names(
        "cat tac rev nl file stat readlink realpath md5sum sha1sum sha224sum sha256sum sha384sum", ProgramSpec()
    ),
    **_map_names("wc du df ls dir vdir lsattr zcat bzcat xzcat zstdcat lz4cat base32 iconv nm size ldd", ProgramSpec()),
    **_map_names("objdump addr2line c++filt tokei cloc scc bat batcat exa eza lsd pathchk look hexyl", ProgramSpec()),
    **_map_names("sha512sum b2sum readelf", ProgramSpec()),
    **_map_names("cksum sum od xxd hexdump hd strings cut paste column fold fmt expand unexpand pr comm", TEXT_COLUMNS),
    **_map_names("cmp join tsort", TEXT_COLUMNS),
    **_map_names(
        "tree",
        ProgramSpec(
            output_options=split_words("-o"), value_options=split_words("-L -I -P"), text_options=split_words("-I -P")
        ),
    ),
    **_map_names("head tail", ProgramSpec(value_options=split_words("-n -c --lines --bytes --pid -s"))),
    **_map_names("base64", ProgramSpec(value_options=split_words("-w --wrap"))),
    **_map_names(
        "xmllint",
        ProgramSpec(
            value_options=split_words("--xpath"),
            text_options=split_words("--xpath"),
            output_options=split_words("--output -o"),
        ),
    ),
    **_map_names("less more most", PAGER),
    **_map_names("diff colordiff sdiff diff3 wdiff", DIFF),
    **_map_names("sort", SORT),
    **_map_names("shuf", ProgramSpec(value_options=split_words("-n -i"), output_options=split_words("-o --output"))),
    **_map_names("grep egrep fgrep zgrep rgrep", GREP),
    **_map_names("rg", RIPGREP),
    **_map_names("ag ack", ACK),
    **_map_names("jq gojq jaq", JQ),
    **_map_names(
        "yq",
        ProgramSpec(
            "a text, then paths", in_place_options=split_words("-i --inplace"), value_options=split_words("-o -p")
        ),
    ),
    **_map_names("rm rmdir unlink shred trash", ProgramSpec("gone")),
    **_map_names("mkdir touch mkfifo tee truncate dos2unix unix2dos rename", FILE_CREATION),
    **_map_names(
        "chmod chown chgrp setfacl chattr",
        ProgramSpec("a text, then changed", text_options=split_words("--reference -m -x")),
    ),
    **_map_names(
        "gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4", ProgramSpec("changed", output_options=split_words("-o"))
    ),
    **_map_names("compress uncompress", ProgramSpec("changed", output_options=split_words("-o"))),
    **_map_names("patch", PATCH),
    **_map_names(
        "mktemp",
        ProgramSpec("any", value_options=split_words("-p --tmpdir"), output_options=split_words("-p --tmpdir")),
    ),
    **_map_names("man info", MANUAL),
    **_map_names("zip", ZIP),
    **_map_names(
        "unzip 7z 7za unrar", ProgramSpec("any", value_options=split_words("-x"), output_options=split_words("-d"))
    ),
    **_map_names(
        "split csplit",
        ProgramSpec("any", exec_options=split_words("--filter"), value_options=split_words("-b -l -n -a -f")),
    ),
    **_map_names(
        "gcc g++ cc c++ clang clang++ ld as ar",
        ProgramSpec("any", exec_options=split_words("-wrapper -fplugin --wrapper -fuse-ld")),
    ),
    **_map_names(
        "make gmake ninja cmake ctest meson just task bazel scons",
        ProgramSpec("any", exec_options=split_words("--eval --run_under")),
    ),
    **_map_names("kill pkill killall skill", ProgramSpec("any")),
}
