"""How a brokered command is launched: what it may read and write outside the workspace, and its environment.

Without a mount namespace nothing can be covered. Landlock allows reading only where it is told to, so folders that
contain something hidden are allowed entry by entry.
"""

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from handhold.backends.marked_processes import compute_mark
from handhold.backends.network import NetworkAccess, build_proxy_environment
from handhold.backends.shell import host_paths
from handhold.backends.shell.broker_filter import build_broker_filter
from handhold.backends.shell.environment import build_environment
from handhold.backends.shell.git_settings import build_git_settings, read_git_excludes
from handhold.backends.shell.launch_spec import LaunchSpec, PassedFiles
from handhold.backends.shell.policy_answers import PolicyAnswers
from handhold.backends.shell.sandbox_layout import Mount, WriteProtection, find_exposed_paths
from handhold.backends.shell.sandbox_support import LANDLOCK_SCOPES_VERSION, SandboxSupport
from handhold.backends.shell.seccomp import build_filter
from handhold.backends.shell.session_folders import shorten_tmp
from handhold.backends.state.state_folder import ensure_private_folder
from handhold.core.errors import NoShell
from handhold.logs import log_swallowed

if TYPE_CHECKING:
    from handhold.backends.network.proxy import Proxy

DEVICE_FOLDER = "/dev"
DEVICES = tuple(f"{DEVICE_FOLDER}/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx"))
REGISTRY_FILE = "registry"  # in the session's folder: what its commands share
SHARED_FOLDERS = (host_paths.TMP, host_paths.VAR_TMP, "/dev/shm")


def explain_broker(support: SandboxSupport) -> tuple[str, ...]:
    """Why there is no overlay, and what the broker does not cover."""
    said = (
        *support.why_not,
        "commands change the workspace itself and are rolled back when they end: others see the states in between",
        "the machine's /tmp, /var/tmp and /dev/shm are shared: commands see them and may create files there, which are"
        " not undone, but change nothing that the session did not create",
        "commands see the machine's processes",
        "unless the network is open, a command reaches only TCP and Unix sockets of its session, and no UDP;"
        " if it is open, no Unix sockets",
    )
    if support.landlock < LANDLOCK_SCOPES_VERSION:
        said += ("commands can send signals to the user's other processes: preventing that needs Landlock version 6",)
    return said


def prepare_brokered_launch(
    broker: str,
    command: Sequence[str],
    *,
    mounts: Sequence[Mount],
    tmp: str,
    home: str,
    results: str | None,
    network: Literal[True] | NetworkAccess,
    env: Mapping[str, str],
    hidden: Sequence[str],
    masks: Sequence[str],
    limit_flags: Sequence[str],
    write_protection: WriteProtection | None,
    tracing: bool,
    stack: ExitStack,
) -> LaunchSpec:
    """The arguments are as for `Sandbox.prepare_launch`. Raises NoShell for what the broker does not cover."""
    settings, excludes = write_git_settings(Path(home).parent)
    files = PassedFiles(stack)
    log = next((mount.work for mount in mounts if mount.mode == "brokered"), "")
    if not log:
        raise NoShell("without namespaces, commands need a writable root")
    mark = compute_mark(os.path.basename(os.path.dirname(log)))
    is_open = network is True
    argv = [broker, *limit_flags, "-k", str(mark), "-l", log, *(("-n",) if is_open else ())]
    direct = write_protection is not None and not write_protection.reviewed
    roots = [mount.real for mount in mounts]
    secrets = find_hidden_inside(roots, masks)
    hidden = tuple(map(os.path.realpath, hidden))
    # Landlock could not let it read what it creates in a temporary folder that contains something hidden.
    is_partial = any(host_paths.is_inside_any(place, list_shared_folders(roots, hidden)) for place in (*hidden, *masks))
    broker_filter = build_broker_filter(network=is_open, reads=bool(secrets) or is_partial)
    for data in (build_filter(direct=direct, tracing=tracing), broker_filter):
        argv += ["-f", files.add_data(data)]
    fds: list[int] = []
    if write_protection:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stack.callback(theirs.close)
        stack.callback(PolicyAnswers(ours, write_protection).close)
        argv += ["-q", str(theirs.fileno())]
        fds.append(theirs.fileno())
    argv += ["-g", os.path.join(os.path.dirname(tmp), REGISTRY_FILE)]
    shown = (settings, excludes, *((results,) if results is not None else ()))
    argv += [flag for place in secrets for flag in ("-h", place)]
    argv += build_place_flags(
        mounts, hidden=hidden, masks=(*masks, *secrets), own=(tmp, home), readable=shown, network=is_open
    )
    is_offline = network is not True and network.is_closed()
    command_env = build_environment(env, home=home, tmp=shorten_tmp(tmp), network=not is_offline)
    command_env |= {"GIT_CONFIG_SYSTEM": settings}
    proxy = None
    if network is not True:
        proxy, listener = serve_proxy(network, stack)
        argv += ["-i", str(os.fstat(listener.fileno()).st_ino)]
        command_env |= build_proxy_environment(listener.getsockname()[1])
    argv += ["--", *command]
    return LaunchSpec(tuple(argv), command_env, command_env, (*files.fds, *fds), proxy, broker=broker)


def serve_proxy(access: NetworkAccess, stack: ExitStack) -> "tuple[Proxy, socket.socket]":
    """A proxy on the machine's own loopback interface, and the socket that it listens on."""
    from handhold.backends.network.proxy import Proxy

    listener = socket.create_server(("127.0.0.1", 0))
    stack.callback(listener.close)
    ours, theirs = socket.socketpair()
    proxy = Proxy(ours, access)
    stack.callback(proxy.close)
    with theirs:
        socket.send_fds(theirs, [b"\0"], [listener.fileno()])
    return proxy, listener


def write_git_settings(state: Path) -> tuple[str, str]:
    """The paths of the settings and the ignore file that git uses in commands, written if they have changed."""
    folder = ensure_private_folder(state / "git")
    settings, excludes = folder / "config", folder / "ignore"
    contents = {settings: build_git_settings(str(excludes), in_place=False), excludes: read_git_excludes()}
    for path, data in contents.items():
        if not path.exists() or path.read_bytes() != data:
            beside = path.with_suffix(f".{os.getpid()}")
            beside.write_bytes(data)
            beside.replace(path)
    return str(settings), str(excludes)


def find_hidden_inside(roots: Sequence[str], masks: Sequence[str]) -> list[str]:
    """What the broker hides in the roots: what a rule denies, secrets of the machine, and those of a home."""
    homes = {*roots} & {*host_paths.find_homes()}
    secrets = (
        *host_paths.list_accessible_secrets(),
        *(each for home in homes for each in host_paths.find_credentials(home)),
    )
    return [place for place in dict.fromkeys((*masks, *secrets)) if host_paths.is_inside_any(place, roots)]


def build_place_flags(
    mounts: Sequence[Mount],
    *,
    hidden: Sequence[str],
    masks: Sequence[str],
    own: Sequence[str],
    readable: Sequence[str],
    network: bool,
) -> list[str]:
    """Flags for the roots, and for the places where the command may write or read.

    `masks` cannot be read wherever they are. `own` are folders of the session, `readable` further places that are shown
    although they are in a hidden folder.
    """
    roots = [mount.real for mount in mounts]
    for place in hidden:
        if host_paths.is_inside_any(place, roots):
            raise NoShell(f"{place} is in the workspace and cannot be hidden from commands without namespaces")
    writable = [*own, *DEVICES]
    exposed = [
        place for place in find_exposed_paths(mounts, network=network) if not host_paths.is_inside_any(place, hidden)
    ]
    covered = (*host_paths.list_hidden_folders(), *hidden, *host_paths.list_accessible_secrets(), *masks)
    displaced = [mount.upper for mount in mounts if mount.mode == "brokered"]  # the command may have it open
    shared = list_shared_folders(roots, hidden)
    shown = [place for top in (*roots, *displaced, *exposed, *readable) for place in list_visible_places(top, masks)]
    shown += [place for top in shared for place in list_visible_places(top, covered)]
    # Of the devices, a command sees those that are nobody's. Its own terminals are opened by the broker.
    visible = dict.fromkeys((*list_visible_places("/", (*covered, DEVICE_FOLDER)), *shown))
    return [
        *(flag for mount in mounts if mount.mode == "brokered" for flag in ("-R", mount.real, mount.upper)),
        *(flag for mount in mounts if mount.mode == "read-only" for flag in ("-O", mount.real)),
        *(flag for place in shared for flag in ("-T", place)),
        *(flag for place in writable for flag in ("-w", place)),
        *(flag for place in visible for flag in ("-r", place)),
    ]


def list_shared_folders(roots: Sequence[str], hidden: Sequence[str]) -> list[str]:
    """Temporary folders of the machine, where commands may create files. The workspace itself may be in one."""
    places = (os.path.realpath(folder) for folder in SHARED_FOLDERS if os.path.isdir(folder))
    return [place for place in dict.fromkeys(places) if place not in (*roots, *hidden)]


def list_visible_places(top: str, covered: Sequence[str]) -> Iterator[str]:
    """The places below `top` that contain nothing covered. Links are left out: what they lead to counts."""
    if top in covered:
        return
    prefix = top.rstrip("/") + "/"
    inside = [place for place in covered if place.startswith(prefix)]
    if not inside:
        yield top
        return
    try:
        with os.scandir(top) as entries:
            names = [entry.path for entry in entries if not entry.is_symlink()]
    except OSError:
        log_swallowed()
        return
    for name in names:
        yield from list_visible_places(name, inside)
