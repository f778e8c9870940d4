"""strace and gdb, if the user allows tracing: a command can trace its own processes and no others."""

import shutil
import subprocess
from pathlib import Path

import pytest

from handhold.backends.shell import seccomp
from handhold.backends.shell.sandbox_support import detect_sandbox_support
from tests.backends.shell.people import USERS, Person, each_person, person, said, system_python
from tests.backends.shell.shells import bench

pytestmark = [
    pytest.mark.skipif(
        detect_sandbox_support().bubblewrap is None or not detect_sandbox_support().has_landlock,
        reason="no Landlock on this machine",
    ),
    pytest.mark.skipif(not shutil.which("strace"), reason="no strace on this machine"),
]

# By number, through the C library: a tracer's system calls, and the process they target.
ATTACH = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = (ctypes.c_long,) * 4
print(os.strerror(ctypes.get_errno()) if libc.ptrace(16, int(sys.argv[1]), 0, 0) else "attached")
"""
# A tracee calls getpid; on entry to the kernel, its tracer turns that into another call.
REWRITE = r"""
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    int status;
    struct user_regs_struct registers;
    pid_t child = fork();
    if (!child) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        long answer = syscall(SYS_getppid, 0, 0, 0, 0, 0);
        _exit(answer < 0 ? errno : 0);
    }
    waitpid(child, &status, 0);
    if (ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD)) return 100;
    for (;;) {
        ptrace(PTRACE_SYSCALL, child, 0, 0);
        waitpid(child, &status, 0);
        if (WIFEXITED(status)) { printf("%d\n", WEXITSTATUS(status)); return 0; }
        ptrace(PTRACE_GETREGS, child, 0, &registers);
        if (registers.orig_rax == SYS_getppid) {
            registers.orig_rax = atoi(words[1]);
            registers.rdi = strtoul(words[2], 0, 0);
            ptrace(PTRACE_SETREGS, child, 0, &registers);
        }
    }
}
"""
SUSPEND = r"""
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    pid_t child = fork();
    if (!child) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); _exit(0); }
    waitpid(child, 0, 0);
    printf("%d\n", ptrace(PTRACE_SETOPTIONS, child, 0, 1 << 21) ? errno : 0);
    kill(child, SIGKILL);
    return 0;
}
"""


who = pytest.fixture(each_person, params=USERS)


def compiled(who: Person, source: str, *flags: str) -> str:
    who.write(who.root / "program.c", source)
    if who.bare(f"gcc -g {' '.join(flags)} -o program program.c").returncode:
        pytest.skip("no compiler here")
    return "./program"


@pytest.mark.parametrize("shadow", [True, False])
def test_e10_strace_works_where_tracing_is_allowed(who: Person, shadow: bool):
    command = "strace -f -o trace bash -c '/bin/true; cat absent' 2>/dev/null; grep -c 'execve(\"/bin/true\"' trace; grep absent trace"
    traced = said(who.contained(command, shadow=shadow, tracing=True))
    assert traced.startswith("1\n")
    assert "ENOENT" in traced  # it reads what the arguments point to
    refused = who.contained("strace -f true", shadow=shadow)
    assert refused.returncode
    assert "Operation not permitted" in refused.stderr


def test_e10_gdb_works_where_tracing_is_allowed(who: Person):
    if not shutil.which("gdb"):
        pytest.skip("no gdb on this machine")
    program = compiled(who, "int twice(int n) { return 2 * n; }\nint main(void) { return twice(21); }\n")
    debug = f"gdb -batch -nx -ex 'break twice' -ex run -ex 'print n' -ex 'set var n = 4' -ex finish {program}"
    shown = said(who.contained(debug, tracing=True))
    assert "$1 = 21" in shown
    assert "Value returned is $2 = 8" in shown


def test_e10_leaks_are_found_where_tracing_is_allowed(who: Person):
    source = "#include <stdlib.h>\nint main(void) { char *volatile lost = malloc(10); lost = 0; return lost != 0; }\n"
    program = compiled(who, source, "-fsanitize=address")
    found = who.contained(f"ASAN_OPTIONS=detect_leaks=1 {program}", tracing=True)
    assert "detected memory leaks" in found.stderr, found


def test_e10_nothing_outside_can_be_traced(who: Person):
    attach = who.write(who.root / "attach.py", ATTACH)
    python = system_python()
    with subprocess.Popen(
        [*who.dropped(), "bash", "-c", "echo ready; exec sleep 60"], stdout=subprocess.PIPE
    ) as victim:
        try:
            assert victim.stdout
            victim.stdout.readline()
            outside = said(who.contained(f"{python} {attach} {victim.pid}", tracing=True))
            assert outside == "No such process\n"
        finally:
            victim.kill()
    assert said(who.contained(f"{python} {attach} 1", tracing=True)) == "Operation not permitted\n"
    assert said(who.contained(f"sleep 9 & {python} {attach} $!; kill $!", tracing=True)) == "attached\n"


def test_e10_a_traced_process_is_held_by_the_filter_all_the_same(who: Person):
    """The kernel runs the filter after the tracer."""
    program = compiled(who, REWRITE)
    user_namespace = 0x10000000
    calls = {"unshare": (272, user_namespace), "keyctl": (250, 0), "bpf": (321, 0), "io_uring_setup": (425, 0)}
    for name, (number, argument) in calls.items():
        assert said(who.contained(f"{program} {number} {argument}", tracing=True)) == "1\n", name  # EPERM
    assert said(who.contained(f"{program} 96 0", tracing=True)) == "0\n"  # a harmless call goes through


def test_e10_no_tracer_takes_the_filter_off(who: Person):
    assert said(who.contained(compiled(who, SUSPEND), tracing=True)) == "1\n"


@pytest.mark.parametrize("machine", tuple(seccomp.ARCHITECTURES))
@pytest.mark.parametrize("direct", [True, False])
def test_e10_tracing_opens_three_calls_and_no_other(machine: str, direct: bool):
    """The filter is the same, without the checks for these three."""
    column = seccomp.ARCHITECTURES[machine].column
    steps = 2 * 8 * len(seccomp.TRACING_SYSCALLS)
    plain, traced = (seccomp.build_filter(machine, direct=direct, tracing=tracing) for tracing in (False, True))
    assert len(plain) - len(traced) == steps
    for name in seccomp.TRACING_SYSCALLS:
        number = seccomp.REFUSED_SYSCALLS[name][column]
        assert number is not None
        assert seccomp.jump_if(seccomp.BPF_JUMP_EQUAL, number, 0, 1) in plain
        assert seccomp.jump_if(seccomp.BPF_JUMP_EQUAL, number, 0, 1) not in traced


def test_e10_without_landlock_nothing_may_be_traced():
    """The first process of the namespace is bubblewrap: only Landlock prevents tracing it."""
    made = person("plain")
    made.launcher = False
    try:
        refused = made.contained("true", tracing=True)
        assert refused.returncode
        assert "tracing needs Landlock" in refused.stderr
    finally:
        shutil.rmtree(made.base)


def test_e10_the_option_reaches_commands(tmp_path: Path):
    with bench(tmp_path, tracing=True) as shell:
        assert "exited with 0" in shell.shows("strace -f true")
