"""The sandbox around a command, as one bubblewrap command line.

Inside are the system, read-only; the roots of the workspace, each on its own layer; a private /tmp; a HOME without
credentials; no network, no capabilities, and no processes but the command's own.

A command may have prepared what the next one runs on. So none of its variables reaches bubblewrap itself, none of its
links reveals what is hidden, and nothing is mounted where it could have left a link: HOME is a separate place, and
mounts in /tmp or in a root are below mounts that no command can move.
"""

import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from handhold.backends.network import NO_HOSTS, NetworkAccess, build_proxy_environment
from handhold.backends.shell import host_paths, orphans, seccomp_notify
from handhold.backends.shell.brokered_launch import explain_broker, prepare_brokered_launch
from handhold.backends.shell.credentials import SOCKET_PATH, CredentialServer
from handhold.backends.shell.environment import build_environment, build_passwd, choose_inner_home
from handhold.backends.shell.git_settings import SYSTEM_CONFIG, build_git_settings, read_git_excludes
from handhold.backends.shell.launch_spec import LaunchSpec, PassedFiles
from handhold.backends.shell.limits import UNLIMITED, ResourceLimits, enter_cgroup
from handhold.backends.shell.loopback import Loopback, open_proxy
from handhold.backends.shell.package_caches import PackageCaches, find_usable_caches
from handhold.backends.shell.sandbox_layout import Mount, WriteProtection, build_layout_flags, find_exposed_paths
from handhold.backends.shell.sandbox_support import (
    ISOLATION_FLAGS,
    Bubblewrap,
    build_base_flags,
    build_sys_flags,
    detect_sandbox_support,
    find_broker,
    list_overlaid_folders,
)
from handhold.backends.shell.seccomp import build_filter
from handhold.backends.shell.streams import (
    StandardStreams,
    duplicate_streams,
    list_writable_paths,
    read_terminal_variables,
)
from handhold.backends.shell.user_namespace import build_id_range_flags
from handhold.core.errors import NoShell
from handhold.core.facts import SandboxStatus
from handhold.core.ports.files import RESULTS_PATH

ShellMode = Literal["contained", "brokered", "external", "unconfined"]

LAUNCHER_PATH, SHIM_PATH, SETTINGS_PATH, EXCLUDES_PATH = (
    f"{host_paths.HANDHOLD_FOLDER}/{name}" for name in ("inside", "rename.so", "gitconfig", "gitignore")
)
EMPTY_MAPPING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Sandbox:
    """Chosen once; `status` says what it confines. With neither of the two, confinement is external or absent."""

    status: SandboxStatus
    bubblewrap: Bubblewrap | None = None
    broker: str = ""  # its path

    def prepare_launch(
        self,
        command: Sequence[str],
        *,
        mounts: Sequence[Mount],
        folder: str,
        tmp: str,
        home: str,
        results: str | None,
        network: Literal[True] | NetworkAccess = NO_HOSTS,
        loopback: Loopback | None = None,
        env: Mapping[str, str] = EMPTY_MAPPING,
        shim: str = "",
        hidden: Sequence[str] = (),
        masks: Mapping[str, str] = EMPTY_MAPPING,
        limits: ResourceLimits = UNLIMITED,
        write_protection: WriteProtection | None = None,
        tracing: bool = False,
        streams: StandardStreams | None = None,
        credentials: CredentialServer | None = None,
    ) -> LaunchSpec:
        """Launch the command in `folder`, with `tmp` as its /tmp, `home` as its HOME and `results` readable.

        It uses the session's `loopback` if there is one, otherwise its own, unless `network` is True. `hidden` names
        folders that it must not see: the state, the staging areas. `masks` maps places to what is mounted over them.
        `shim` is preloaded into every program. `write_protection` is for direct roots; raises NoShell if it cannot be
        enforced. With `tracing` it may trace its own processes; raises NoShell if it could trace others. `streams` are
        passed to the command, but not to bubblewrap, whose messages we collect. `credentials` answers its git.
        """
        env = {**(read_terminal_variables() if streams else {}), **env}
        with ExitStack() as stack:
            group, remaining_limits = enter_cgroup(limits, stack)
            launcher_flags = [*remaining_limits.to_flags()]
            if self.broker:
                launch = prepare_brokered_launch(
                    self.broker,
                    command,
                    mounts=mounts,
                    tmp=tmp,
                    home=home,
                    results=results,
                    network=network,
                    env=env,
                    hidden=hidden,
                    masks=tuple(masks),
                    limit_flags=launcher_flags,
                    write_protection=write_protection,
                    tracing=tracing,
                    stack=stack,
                )
                argv = (*group, *launch.argv)
                return replace(launch, argv=argv, streams=streams, cleanup=stack.pop_all())
            if self.bubblewrap is None:
                launcher = detect_sandbox_support().launcher
                limited = (launcher, *launcher_flags, "--") if launcher and launcher_flags else ()
                command_env = build_environment(env, home=home, tmp=tmp, network=True)
                argv = (*group, *limited, *command)
                return LaunchSpec(argv, command_env, command_env, streams=streams, cleanup=stack.pop_all())
            inner = choose_inner_home()
            is_open = network is True or not network.is_closed()  # some host can be reached
            hidden = tuple(map(os.path.realpath, hidden))
            caches = PackageCaches() if is_open else find_usable_caches([mount.real for mount in mounts], hidden)
            command_env = build_environment(
                {**caches.variables, **env}, home=inner, tmp=host_paths.TMP, network=is_open
            )
            proxy, passed_fds = None, list[int]()
            join_argv: tuple[str, ...] = ()
            if loopback is not None and network is not True:
                join_argv, namespace = loopback.prepare_join(stack)
                proxy = loopback.proxy
                passed_fds.append(namespace)
            elif network is not True and (is_open or detect_sandbox_support().launcher):
                proxy, proxy_fd = open_proxy(network, stack)
                launcher_flags += ["-n", str(proxy_fd)]
                passed_fds.append(proxy_fd)
            if proxy is not None:
                command_env |= build_proxy_environment()
            files = PassedFiles(stack)
            writable = any(mount.real == "/" and mount.mode == "direct" for mount in mounts)
            overlaid_folders = () if writable else list_overlaid_folders(caches.paths)
            # libgit2 has no variable for the system configuration.
            in_place = not writable and is_coverable(SYSTEM_CONFIG, can_create="/etc" in overlaid_folders)
            settings = str(SYSTEM_CONFIG) if in_place else SETTINGS_PATH
            git_settings = build_git_settings(EXCLUDES_PATH, in_place=in_place)
            if credentials:
                git_settings += credentials.build_git_settings()
            command_env |= {"GIT_CONFIG_SYSTEM": settings} | ({"LD_PRELOAD": SHIM_PATH} if shim else {})
            exposed = find_exposed_paths(mounts, network=network is True)
            layout_flags, covers = build_layout_flags(
                mounts, hidden, masks, exposed, overlaid_folders, tmp, write_protection, caches
            )
            flags = [
                *build_base_flags(writable=writable, overlaid=overlaid_folders),
                *(
                    ()
                    if writable
                    else (flag for each in host_paths.list_loose_files() for flag in files.build_copy_flags(*each))
                ),
                *("--bind", tmp, host_paths.TMP, "--tmpfs", host_paths.VAR_TMP, "--bind", home, inner),
                *("--ro-bind-data", files.add_data(git_settings), settings),
                *(("--ro-bind", credentials.path, SOCKET_PATH) if credentials else ()),
                *("--file", files.add_data(read_git_excludes()), EXCLUDES_PATH),
                *("--ro-bind-data", files.add_data(build_passwd(inner)), "/etc/passwd"),
                *(("--ro-bind", results, RESULTS_PATH) if results is not None else ()),
                *(files.build_copy_flags(shim, "0555", SHIM_PATH) if shim else ()),
                *layout_flags,
            ]
            support = detect_sandbox_support()
            # Without Landlock, a command could trace the namespace's first process, which is bubblewrap.
            if tracing and not support.has_landlock:
                raise NoShell("tracing needs Landlock and the launcher, which is compiled at installation")
            if streams and not support.launcher:
                raise NoShell(
                    "a command with the caller's streams needs the launcher, which is compiled at installation"
                )
            passed_streams = duplicate_streams(streams or (), stack, has_landlock=support.has_landlock)
            launcher_flags += [word for number, fd in enumerate(passed_streams) for word in (f"-{number}", str(fd))]
            passed_fds += passed_streams
            writable_folders = list_writable_folders(mounts, inner, caches)
            supervised = list_supervised_folders(mounts, writable_folders) if write_protection else ()
            supervisor_fd = (
                start_supervisor(write_protection, supervised, stack) if write_protection and supervised else None
            )
            if supervisor_fd is not None:
                launcher_flags += ["-c", files.add_data(seccomp_notify.build_notify_filter()), "-o", str(supervisor_fd)]
            if support.seccomp:
                direct = any(mount.mode == "direct" for mount in mounts)
                flags += ["--seccomp", files.add_data(build_filter(direct=direct, tracing=tracing))]
            if support.has_landlock:
                writable_paths = (*writable_folders, *list_writable_paths(passed_streams))
                launcher_flags += build_landlock_flags(writable_paths, supervised, scoped=support.has_landlock_scopes)
            else:  # process 1 is bubblewrap, whose file is outside; Landlock would deny access to it
                flags += ["--tmpfs", "/proc/1", "--remount-ro", "/proc/1"]
            on_overlay = {mount.mode for mount in mounts} - {"read-only"} == {"overlay"}
            isolation_flags, namespace = build_id_range_flags() if on_overlay else (ISOLATION_FLAGS, ())
            launcher_flags += [flag for fd in namespace for flag in ("-x", str(fd))]
            if support.launcher:
                flags += files.build_copy_flags(support.launcher, "0555", LAUNCHER_PATH)
                command = (LAUNCHER_PATH, *launcher_flags, "--", *command)
            shared = ("--share-net",) if network is True or join_argv else ()
            flags += [
                flag
                for place in (*covers, *overlaid_folders)
                if place not in caches.paths
                for flag in ("--remount-ro", place)
            ]
            flags += [*build_sys_flags(), "--remount-ro", "/", *isolation_flags, *shared, "--chdir", folder]
            flags += ["--unsetenv", orphans.TOOL_VARIABLE]
            flags += [flag for name, value in command_env.items() for flag in ("--setenv", name, value)]
            device_argv = (support.launcher, "-d", "--") if support.launcher and os.geteuid() == 0 else ()
            argv = (
                *group,
                *device_argv,
                *join_argv,
                self.bubblewrap.path,
                "--args",
                files.add_arguments(flags),
                "--",
                *command,
            )
            fds = (*files.fds, *passed_fds, *namespace, *(() if supervisor_fd is None else (supervisor_fd,)))
            return LaunchSpec(
                argv, orphans.build_tool_environment(os.getpid()), command_env, fds, proxy, cleanup=stack.pop_all()
            )


def is_coverable(path: Path, *, can_create: bool) -> bool:
    """Whether a file can be mounted over it; `can_create` if root can create it there, on an overlay."""
    return (path.is_file() and not path.is_symlink()) or (
        can_create and os.geteuid() == 0 and not os.path.lexists(path)
    )


def start_supervisor(write_protection: WriteProtection, folders: Sequence[str], stack: ExitStack) -> int:
    """Start a supervisor, and return the descriptor over which it receives its notification descriptor."""
    from handhold.backends.shell.supervisor import Supervisor

    support = detect_sandbox_support()
    if not support.has_landlock or not seccomp_notify.build_notify_filter():
        lacking = "the launcher, which was not compiled at installation" if support.landlock else "Landlock"
        raise NoShell(f"a command that runs directly on the workspace needs {lacking}, to protect names")
    ours, theirs = socket.socketpair()
    stack.callback(theirs.close)
    stack.callback(Supervisor(ours, folders, write_protection.is_write_protected).close)
    return theirs.fileno()


def list_supervised_folders(mounts: Sequence[Mount], writable: Sequence[str]) -> tuple[str, ...]:
    """Folders in which Landlock denies changes that the supervisor then makes: direct roots, and those around them."""
    roots = [mount.real for mount in mounts if mount.mode == "direct"]
    return tuple(place for place in writable if any(host_paths.is_inside(root, place) for root in roots))


def list_writable_folders(mounts: Sequence[Mount], home: str, caches: PackageCaches) -> tuple[str, ...]:
    writable = [mount.real for mount in mounts if mount.mode != "read-only"]
    return (*writable, host_paths.TMP, host_paths.VAR_TMP, home, "/dev", *caches.folders, *caches.paths)


def create_sandbox(mode: ShellMode) -> Sandbox:
    """Raise NoShell if commands should be sandboxed and cannot be."""
    if mode == "external":
        return Sandbox(
            SandboxStatus(
                "external", shadow=False, network=True, why_not=("the environment of Handhold confines commands",)
            )
        )
    if mode == "unconfined":
        return Sandbox(
            SandboxStatus("nothing", shadow=False, network=True, why_not=("commands run unconfined, as configured",))
        )
    support = detect_sandbox_support()
    if mode == "brokered":
        broker, why_not = find_broker()
        if not broker:
            raise NoShell(f"no broker: {why_not}")
        support = replace(support, bubblewrap=None, broker=broker, why_not=("commands are brokered, as configured",))
    found = support.bubblewrap
    if (found is None or not found.overlay) and support.broker:
        status = SandboxStatus("broker", shadow=True, network=False, why_not=explain_broker(support))
        return Sandbox(status, broker=support.broker)
    if found is None:
        remedy = "; run `handhold doctor` to see how to allow it" if support.remedy else ""
        raise NoShell("; ".join(support.why_not) + remedy)
    status = SandboxStatus(f"bubblewrap {found.version}", shadow=found.overlay, network=False, why_not=support.why_not)
    return Sandbox(status, found)


def build_landlock_flags(writable: Sequence[str], supervised: Sequence[str], *, scoped: bool) -> list[str]:
    """Where Landlock lets the command write: a second line of defense."""
    given = (flag for place in writable for flag in ("-e" if place in supervised else "-w", place))
    return [*given, *(("-s",) if scoped else ())]
