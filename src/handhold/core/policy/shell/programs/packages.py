"""Package managers and network programs, by their subcommands."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from handhold.core.policy.shell.simple_command import ProgramArguments, SimpleCommand, require_single_words
from handhold.core.policy.shell.words import Word, split_words

NETWORK_PROGRAMS = split_words("""
    curl wget aria2c http https httpie xh ssh scp sftp ftp lftp tftp telnet nc ncat netcat socat ping ping6 fping
    traceroute tracepath mtr dig host nslookup whois nmap drill delv docker podman nerdctl docker-compose kubectl
    helm gh glab hub aws gcloud az doctl flyctl fly heroku vercel netlify firebase wrangler tofu pulumi
    ansible ansible-playbook vagrant psql mysql mysqldump mariadb redis-cli mongo mongosh pg_dump pg_restore mail
    mailx sendmail mutt rclone s3cmd gsutil twine snap flatpak brew pacman dnf yum zypper apk port emerge nix-env
    nix-shell nix nvm fnm volta rustup asdf mise pyenv rbenv ngrok cloudflared tailscale uvicorn gunicorn
    flask-serve http-server live-server serve caddy nginx httpd pipx uvx bunx xdg-mime w3m lynx links elinks axel
    youtube-dl yt-dlp svn hg bzr cvs rcp rlogin rsh finger ntpdate dhclient wg openvpn smbclient mosh ab wrk hey
    vegeta k6 tcpdump tshark apt-add-repository add-apt-repository
""")

_LOOPBACK = re.compile(r"(?:\w+://)?(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?:[:/?#].*)?", re.DOTALL | re.IGNORECASE)
_ADDRESS = re.compile(r"[\w+.-]+://")


def has_only_loopback(words: Sequence[Word]) -> bool:
    """Whether the words contain addresses, all of them loopback: without a network, those are the command's own."""
    addresses = [word for word in words if _LOOPBACK.fullmatch(word.text) or _ADDRESS.match(word.text)]
    return bool(addresses) and all(_LOOPBACK.fullmatch(word.text) for word in addresses)


@dataclass(frozen=True)
class PackageManager:
    """`network_commands` are subcommands that use the network, `read_only_commands` those that change nothing,
    `wrapper_commands` those that run the program after them."""

    network_commands: frozenset[str]
    read_only_commands: frozenset[str] = frozenset()
    wrapper_commands: tuple[str, ...] = ()
    installs_by_default: bool = False  # installs if there is no subcommand
    dangerous_commands: frozenset[str] = frozenset()
    value_options: frozenset[str] = frozenset()
    exec_options: tuple[str, ...] = ()  # options that run a program
    code_commands: tuple[str, ...] = ()  # subcommands followed by code

    def analyze(self, command: SimpleCommand) -> None:
        options = ProgramArguments.parse(command.arguments, self.value_options, permute=False)
        require_single_words(command.arguments[: len(command.arguments) - len(options.operands) + 1], command.name)
        name = _normalize_manager_name(command.name)
        if options.has_option(*self.exec_options) or any(
            word.text.partition("=")[0] in self.exec_options for word in options.operands
        ):
            command.report_dangerous(f"`{command.name}` runs another program through an option")
        if not options.operands:
            if self.installs_by_default and not options.options:
                command.report_network(name)
            return
        subcommand, rest = options.operands[0].text, options.operands[1:]
        two_words = f"{subcommand} {rest[0].text if rest else ''}".strip()
        if not options.operands[0].is_known:
            command.report_unknown(f"what `{command.name}` would do is not known before it runs")
        elif subcommand in self.code_commands:
            command.report_unknown(f"code on the command line of `{command.name}` cannot be analyzed")
        elif any("://" in word.text for word in rest):
            command.report_network()
        elif subcommand in self.dangerous_commands:
            command.report_dangerous(f"`{name} {subcommand}` affects more than the workspace")
        elif {subcommand, two_words} & self.network_commands and two_words not in self.read_only_commands:
            _analyze_network_command(command, name, subcommand, rest)
        elif subcommand in self.wrapper_commands:
            _analyze_wrapped(command, rest)
        elif subcommand not in self.read_only_commands:
            command.report_change()
        if subcommand not in self.wrapper_commands:
            command.check_path_arguments(rest)


OFFLINE_OPTIONS = ("--offline", "--no-index")
REGISTRY_OPTIONS = split_words("""
    --index-url --extra-index-url -i --registry --index --git --default-index -f --find-links --trusted-host
""")
_RUN_VALUE_OPTIONS = split_words("--with --python -p --extra --group --env-file -n --name --package --directory")


def _analyze_network_command(command: SimpleCommand, name: str, subcommand: str, rest: tuple[Word, ...]) -> None:
    """Approvals for similar commands cover the default registry only."""
    if subcommand == "init" and all(word.text.startswith("-") for word in rest):  # with a name, npm fetches and runs it
        command.report_change()
    elif any(word.text in OFFLINE_OPTIONS for word in command.arguments):
        command.report_unknown(f"which package code `{name} {subcommand}` runs is not known before it runs")
    elif any(
        word.text.partition("=")[0] in REGISTRY_OPTIONS or re.match("git@|(?s:.*)@git", word.text) for word in rest
    ):
        command.report_network()
    else:
        command.report_network(name, subcommand)


def _analyze_wrapped(command: SimpleCommand, rest: tuple[Word, ...]) -> None:
    """`uv run pytest`, `poetry run x`: analyze the program after the wrapper's own options."""
    options = ProgramArguments.parse(rest, _RUN_VALUE_OPTIONS, permute=False)
    if options.has_option("--with", "--from", "--package", "--with-requirements", "--yes", "-y"):
        command.report_network()
    if options.has_option("-c", "--call"):
        command.report_unknown("code on a command line cannot be analyzed")
    command.report_change()
    command.analyze_nested(options.operands)


def analyze_npx(command: SimpleCommand) -> None:
    """Runs what is installed in the project. Anything else would be fetched, which fails without a network."""
    _analyze_wrapped(command, command.arguments)


def _normalize_manager_name(name: str) -> str:
    return "pip" if name.startswith("pip") and name.lstrip("pi")[:1] in ("", "3") and name != "pipx" else name


_NPM = PackageManager(
    split_words(
        """
            install i add ci update upgrade up uninstall remove rm un view info show search publish login logout whoami
            audit fund outdated ping link dedupe init create adduser owner token access team deprecate dist-tag star
            import dlx fetch rebuild
        """
    ),
    read_only_commands=split_words("ls list root prefix bin help version explain why config get -v"),
    wrapper_commands=("exec", "x"),
    value_options=split_words("--prefix -C --dir -w --workspace --filter -F --cwd"),
)
_BUNDLE = PackageManager(
    split_words("install update add outdated lock cache package remove"),
    split_words("list show info check config"),
    ("exec",),
)

PACKAGE_MANAGERS: dict[str, PackageManager] = {
    "npm": _NPM,
    "pnpm": _NPM,
    "yarn": PackageManager(
        _NPM.network_commands,
        _NPM.read_only_commands,
        ("exec",),
        installs_by_default=True,
        value_options=_NPM.value_options,
    ),
    "bun": PackageManager(_NPM.network_commands, _NPM.read_only_commands, ("x",)),
    "pip": PackageManager(
        split_words("install download wheel search index"),
        split_words("list show freeze check help config debug inspect hash cache"),
    ),
    "uv": PackageManager(
        split_words("add remove sync lock pip publish tool python self build"),
        split_words("version tree help export cache") | {"pip list", "pip show", "pip freeze", "pip check", "pip tree"},
        ("run",),
        value_options=split_words("--directory --project"),
    ),
    "poetry": PackageManager(
        split_words("add remove install update lock publish search self source"),
        split_words("show check version config env about list"),
        ("run",),
    ),
    "pdm": PackageManager(
        split_words("add remove install update lock publish sync"), split_words("list info config"), ("run",)
    ),
    "pipenv": PackageManager(
        split_words("install update lock sync uninstall upgrade"), split_words("graph check"), ("run",)
    ),
    "rye": PackageManager(
        split_words("add remove sync lock publish fetch install"), split_words("list show"), ("run",)
    ),
    "hatch": PackageManager(split_words("publish dep env"), split_words("version status"), ("run",)),
    "conda": PackageManager(
        split_words("install create update remove search env upgrade"), split_words("list info config"), ("run",)
    ),
    "mamba": PackageManager(split_words("install create update remove search env"), split_words("list info"), ("run",)),
    "cargo": PackageManager(
        split_words(
            """
                add install update fetch search publish login logout owner yank uninstall remove rm generate-lockfile
                vendor binstall
            """
        ),
        split_words("tree metadata locate-project pkgid version help verify-project"),
        value_options=split_words("--config --color -C --manifest-path -Z"),
        exec_options=("--config",),
    ),
    "go": PackageManager(
        split_words("get install")
        | frozenset(("mod download", "mod tidy", "mod vendor", "mod verify", "mod why", "mod graph", "work sync")),
        split_words("version env list doc help vet"),
        exec_options=("-exec", "-toolexec", "-vettool", "-overlay", "--exec", "--toolexec"),
        dangerous_commands=split_words("bug telemetry"),
    ),
    "gem": PackageManager(
        split_words("install update uninstall fetch push search outdated owner signin yank"),
        split_words("list env help environment contents which"),
    ),
    "bundle": _BUNDLE,
    "bundler": _BUNDLE,
    "composer": PackageManager(
        split_words("install update require remove create-project global self-update outdated search show audit"),
        split_words("validate licenses status"),
        ("exec",),
    ),
    "dotnet": PackageManager(
        split_words("restore add remove nuget workload tool new publish"), split_words("list --info --version")
    ),
    "mix": PackageManager(
        split_words("deps.get deps.update hex.publish archive.install local.hex local.rebar"), split_words("help deps")
    ),
    "apt": PackageManager(
        split_words(
            "update install upgrade remove purge autoremove full-upgrade dist-upgrade download source build-dep"
        ),
        split_words("list show search policy depends rdepends"),
    ),
    "apt-get": PackageManager(
        split_words("update install upgrade remove purge autoremove dist-upgrade download source build-dep clean"),
        split_words("check"),
    ),
    "apt-cache": PackageManager(frozenset(), split_words("search show policy depends rdepends madison showpkg")),
    "deno": PackageManager(
        split_words("install add cache upgrade publish"), split_words("info doc types"), code_commands=("eval", "repl")
    ),
    "pre-commit": PackageManager(
        split_words("autoupdate install-hooks"),
        split_words("validate-config sample-config help"),
        dangerous_commands=split_words("install uninstall init-templatedir try-repo"),
    ),
    "terraform": PackageManager(
        split_words("init plan apply destroy import refresh login get providers state workspace"),
        split_words("fmt validate show version output"),
    ),
    "corepack": PackageManager(split_words("enable prepare use up install"), split_words("--version")),
    "playwright": PackageManager(split_words("install install-deps open codegen"), frozenset()),
    "openssl": PackageManager(
        split_words("s_client s_server s_time ocsp cmp"),
        split_words("version x509 dgst asn1parse list ciphers"),
        dangerous_commands=split_words("engine"),
    ),
    "systemctl": PackageManager(
        frozenset(),
        split_words("status list-units is-active show cat"),
        dangerous_commands=split_words(
            """
                start stop restart enable disable reboot poweroff mask daemon-reload kill edit link set-property isolate
                reload
            """
        ),
    ),
    "ip": PackageManager(
        frozenset(), split_words("addr a link route r -br -brief address"), dangerous_commands=split_words("netns")
    ),
}
