"""Package managers and programs that connect, by their subcommands."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from handhold.core.policy.shell.call import Call, Options, sure
from handhold.core.policy.shell.words import Word, listed

NETWORK = listed("""
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


def name_only_loopback(words: Sequence[Word]) -> bool:
    """Whether the words name an address, and each one is on the loopback: without a network, the command's own."""
    named = [word for word in words if _LOOPBACK.fullmatch(word.text) or _ADDRESS.match(word.text)]
    return bool(named) and all(_LOOPBACK.fullmatch(word.text) for word in named)


@dataclass(frozen=True)
class Manager:
    """`connects`: subcommands that do; `looks`: those that change nothing; `wraps`: behind which a program stands."""

    connects: frozenset[str]
    looks: frozenset[str] = frozenset()
    wraps: tuple[str, ...] = ()
    bare: bool = False  # without a subcommand it installs
    dangerous: frozenset[str] = frozenset()
    takes: frozenset[str] = frozenset()
    runs: tuple[str, ...] = ()  # options that run a program
    code: tuple[str, ...] = ()  # subcommands that are followed by code

    def judge(self, call: Call) -> None:
        options = Options.read(call.arguments, self.takes, permute=False)
        sure(call.arguments[: len(call.arguments) - len(options.operands) + 1], call.name)
        name = _family(call.name)
        if options.has(*self.runs) or any(word.text.partition("=")[0] in self.runs for word in options.operands):
            call.dangerous(f"`{call.name}` runs another program by an option")
        if not options.operands:
            if self.bare and not options.given:
                call.connects(name)
            return
        verb, rest = options.operands[0].text, options.operands[1:]
        two = f"{verb} {rest[0].text if rest else ''}".strip()
        if not options.operands[0].known:
            call.unknown(f"what `{call.name}` would do is not known before it runs")
        elif verb in self.code:
            call.unknown(f"code on the command line of `{call.name}` cannot be judged")
        elif any("://" in word.text for word in rest):
            call.connects()
        elif verb in self.dangerous:
            call.dangerous(f"`{name} {verb}` reaches beyond the workspace")
        elif {verb, two} & self.connects and two not in self.looks:
            _connect(call, name, verb, rest)
        elif verb in self.wraps:
            _wrapped(call, rest)
        elif verb not in self.looks:
            call.changes()
        if verb not in self.wraps:
            call.sweep(rest)


OFFLINE = ("--offline", "--no-index")
ELSEWHERE = listed("""
    --index-url --extra-index-url -i --registry --index --git --default-index -f --find-links --trusted-host
""")
_WRAPPED_TAKES = listed("--with --python -p --extra --group --env-file -n --name --package --directory")


def _connect(call: Call, name: str, verb: str, rest: tuple[Word, ...]) -> None:
    """An approval of the like of it is for the usual place to get things from."""
    if verb == "init" and all(word.text.startswith("-") for word in rest):  # with a name, npm fetches and runs it
        call.changes()
    elif any(word.text in OFFLINE for word in call.arguments):
        call.unknown(f"what `{name} {verb}` would run of the packages is not known before it runs")
    elif any(word.text.partition("=")[0] in ELSEWHERE or re.match("git@|(?s:.*)@git", word.text) for word in rest):
        call.connects()
    else:
        call.connects(name, verb)


def _wrapped(call: Call, rest: tuple[Word, ...]) -> None:
    """`uv run pytest`, `poetry run x`: the program behind it, after its own options."""
    options = Options.read(rest, _WRAPPED_TAKES, permute=False)
    if options.has("--with", "--from", "--package", "--with-requirements", "--yes", "-y"):
        call.connects()
    if options.has("-c", "--call"):
        call.unknown("code on a command line cannot be judged")
    call.changes()
    call.runs(options.operands)


def npx(call: Call) -> None:
    """What is installed in the project runs; what is not would be fetched, and there is no network."""
    _wrapped(call, call.arguments)


def _family(name: str) -> str:
    return "pip" if name.startswith("pip") and name.lstrip("pi")[:1] in ("", "3") and name != "pipx" else name


_NPM = Manager(
    listed(
        """
            install i add ci update upgrade up uninstall remove rm un view info show search publish login logout whoami
            audit fund outdated ping link dedupe init create adduser owner token access team deprecate dist-tag star
            import dlx fetch rebuild
        """
    ),
    looks=listed("ls list root prefix bin help version explain why config get -v"),
    wraps=("exec", "x"),
    takes=listed("--prefix -C --dir -w --workspace --filter -F --cwd"),
)
_BUNDLE = Manager(
    listed("install update add outdated lock cache package remove"), listed("list show info check config"), ("exec",)
)

MANAGERS: dict[str, Manager] = {
    "npm": _NPM,
    "pnpm": _NPM,
    "yarn": Manager(_NPM.connects, _NPM.looks, ("exec",), bare=True, takes=_NPM.takes),
    "bun": Manager(_NPM.connects, _NPM.looks, ("x",)),
    "pip": Manager(
        listed("install download wheel search index"),
        listed("list show freeze check help config debug inspect hash cache"),
    ),
    "uv": Manager(
        listed("add remove sync lock pip publish tool python self build"),
        listed("version tree help export cache") | {"pip list", "pip show", "pip freeze", "pip check", "pip tree"},
        ("run",),
        takes=listed("--directory --project"),
    ),
    "poetry": Manager(
        listed("add remove install update lock publish search self source"),
        listed("show check version config env about list"),
        ("run",),
    ),
    "pdm": Manager(listed("add remove install update lock publish sync"), listed("list info config"), ("run",)),
    "pipenv": Manager(listed("install update lock sync uninstall upgrade"), listed("graph check"), ("run",)),
    "rye": Manager(listed("add remove sync lock publish fetch install"), listed("list show"), ("run",)),
    "hatch": Manager(listed("publish dep env"), listed("version status"), ("run",)),
    "conda": Manager(listed("install create update remove search env upgrade"), listed("list info config"), ("run",)),
    "mamba": Manager(listed("install create update remove search env"), listed("list info"), ("run",)),
    "cargo": Manager(
        listed(
            """
                add install update fetch search publish login logout owner yank uninstall remove rm generate-lockfile
                vendor binstall
            """
        ),
        listed("tree metadata locate-project pkgid version help verify-project"),
        takes=listed("--config --color -C --manifest-path -Z"),
        runs=("--config",),
    ),
    "go": Manager(
        listed("get install")
        | frozenset(("mod download", "mod tidy", "mod vendor", "mod verify", "mod why", "mod graph", "work sync")),
        listed("version env list doc help vet"),
        runs=("-exec", "-toolexec", "-vettool", "-overlay", "--exec", "--toolexec"),
        dangerous=listed("bug telemetry"),
    ),
    "gem": Manager(
        listed("install update uninstall fetch push search outdated owner signin yank"),
        listed("list env help environment contents which"),
    ),
    "bundle": _BUNDLE,
    "bundler": _BUNDLE,
    "composer": Manager(
        listed("install update require remove create-project global self-update outdated search show audit"),
        listed("validate licenses status"),
        ("exec",),
    ),
    "dotnet": Manager(listed("restore add remove nuget workload tool new publish"), listed("list --info --version")),
    "mix": Manager(
        listed("deps.get deps.update hex.publish archive.install local.hex local.rebar"), listed("help deps")
    ),
    "apt": Manager(
        listed("update install upgrade remove purge autoremove full-upgrade dist-upgrade download source build-dep"),
        listed("list show search policy depends rdepends"),
    ),
    "apt-get": Manager(
        listed("update install upgrade remove purge autoremove dist-upgrade download source build-dep clean"),
        listed("check"),
    ),
    "apt-cache": Manager(frozenset(), listed("search show policy depends rdepends madison showpkg")),
    "deno": Manager(listed("install add cache upgrade publish"), listed("info doc types"), code=("eval", "repl")),
    "pre-commit": Manager(
        listed("autoupdate install-hooks"),
        listed("validate-config sample-config help"),
        dangerous=listed("install uninstall init-templatedir try-repo"),
    ),
    "terraform": Manager(
        listed("init plan apply destroy import refresh login get providers state workspace"),
        listed("fmt validate show version output"),
    ),
    "corepack": Manager(listed("enable prepare use up install"), listed("--version")),
    "playwright": Manager(listed("install install-deps open codegen"), frozenset()),
    "openssl": Manager(
        listed("s_client s_server s_time ocsp cmp"),
        listed("version x509 dgst asn1parse list ciphers"),
        dangerous=listed("engine"),
    ),
    "systemctl": Manager(
        frozenset(),
        listed("status list-units is-active show cat"),
        dangerous=listed(
            """
                start stop restart enable disable reboot poweroff mask daemon-reload kill edit link set-property isolate
                reload
            """
        ),
    ),
    "ip": Manager(frozenset(), listed("addr a link route r -br -brief address"), dangerous=listed("netns")),
}
