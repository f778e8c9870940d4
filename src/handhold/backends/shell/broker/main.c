/* broker -L LIFELINE -l LOG -f FILTER -f NOTIFYING_FILTER [-R ROOT STORE]... [-O ROOT]... [-T FOLDER]... [-w PLACE]... [-r PLACE]...
          [-h PLACE]... [-i INODE] [-q POLICY] [-g SOCKETS] [-k MARK] [-m BYTES] [-p COUNT] [-n] -- COMMAND [ARGUMENT]...

   -L  when the other end of this pipe is closed, everything is killed
   -l  the undo log, which must not exist
   -f  descriptors of the two filters: the first refuses calls, the second has them notified
   -R  a root that the command changes through the broker, and a private folder on the same mount
   -O  a root that it may not change: EROFS
   -T  a temporary folder of the machine, where it may create files and change what its session created
   -w  outside the workspace, where it may write
   -r  where it may read files; reading is denied everywhere else
   -h  in the workspace, what it may neither read nor change; the filter must then have all that opens files notified
   -i  it may connect to the listening socket with this inode, a proxy
   -q  each change is asked about over this socket first, and refused unless the answer is yes
   -g  a file with what the commands of the session share
   -k  a limit that no program uses (RLIMIT_RTTIME) is set to this number, by which the command's processes are known
   -m, -p  limits on address space and processes
   -n  the network is open

   Exits as the command did, when nothing that it started is left; with 125 if it could not be started. */

#include "broker.h"
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>

#define KILL_TIMEOUT_SECONDS 5
/* Linux 6.6: the caller is woken on the processor that answers it. Older headers do not have it. */
#define NOTIFY_SET_FLAGS _IOW('!', 4, uint64_t)
#define NOTIFY_SYNC_WAKE_UP 1UL

struct root roots[MAX_ROOTS];
int root_count;
const char *writable_places[MAX_ROOTS];
int writable_count;
int listener = -1;

void stop(const char *why, const char *what) {
    fprintf(stderr, "handhold: %s%s\n", why, what);
    _exit(125);
}

/* --- answers */

int is_waiting(const struct call *call) { return !ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &call->id); }

void answer(const struct call *call, int64_t value, int error, uint32_t flags) {
    struct seccomp_notif_resp response = {call->id, value, error, flags};
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response); /* fails if the caller has been killed */
}

/* Its number in the caller, which still waits. */
int add_descriptor(const struct call *call, int fd, int close_on_exec) {
    struct seccomp_notif_addfd request = {.id = call->id, .srcfd = (uint32_t)fd, .newfd_flags = close_on_exec ? O_CLOEXEC : 0};
    int given = ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &request);
    return given < 0 ? -errno : given;
}

/* Closes `fd`, before the caller goes on: a program that is open for writing cannot be executed. */
int give_descriptor(const struct call *call, int fd, int close_on_exec) {
    int given = add_descriptor(call, fd, close_on_exec);
    close(fd);
    if (given < 0) return given;
    answer(call, given, 0, 0);
    return ANSWERED;
}

/* The same for a file that is opened for reading, in one call: it may stay open a moment longer. */
int give_readable(const struct call *call, int fd, int close_on_exec) {
    struct seccomp_notif_addfd request = {
        .id = call->id, .srcfd = (uint32_t)fd, .newfd_flags = close_on_exec ? O_CLOEXEC : 0, .flags = SECCOMP_ADDFD_FLAG_SEND};
    int failed = ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &request) < 0 ? -errno : 0;
    close(fd);
    return failed ? failed : ANSWERED;
}

static int dispatch(const struct call *call, int number) {
    const uint64_t *a = call->args;
    switch (number) {
#ifdef SYS_open
    case SYS_open: return open_file(call, AT_FDCWD, a[0], (int)a[1], (mode_t)a[2]);
    case SYS_creat: return open_file(call, AT_FDCWD, a[0], O_CREAT | O_WRONLY | O_TRUNC, (mode_t)a[1]);
    case SYS_mkdir: return make_folder(call, AT_FDCWD, a[0], (mode_t)a[1]);
    case SYS_mknod: return make_node(call, AT_FDCWD, a[0], (mode_t)a[1]);
    case SYS_symlink: return make_link(call, a[0], AT_FDCWD, a[1]);
    case SYS_link: return hard_link(call, AT_FDCWD, a[0], AT_FDCWD, a[1], 0);
    case SYS_rename: return rename_entry(call, AT_FDCWD, a[0], AT_FDCWD, a[1], 0);
    case SYS_unlink: return remove_entry(call, AT_FDCWD, a[0], 0);
    case SYS_rmdir: return remove_entry(call, AT_FDCWD, a[0], 1);
#endif
#ifdef SYS_renameat
    case SYS_renameat: return rename_entry(call, (int)a[0], a[1], (int)a[2], a[3], 0);
#endif
    case SYS_openat: return open_file(call, (int)a[0], a[1], (int)a[2], (mode_t)a[3]);
    case SYS_mkdirat: return make_folder(call, (int)a[0], a[1], (mode_t)a[2]);
    case SYS_mknodat: return make_node(call, (int)a[0], a[1], (mode_t)a[2]);
    case SYS_symlinkat: return make_link(call, a[0], (int)a[1], a[2]);
    case SYS_linkat: return hard_link(call, (int)a[0], a[1], (int)a[2], a[3], (int)a[4]);
    case SYS_renameat2: return rename_entry(call, (int)a[0], a[1], (int)a[2], a[3], (unsigned)a[4]);
    case SYS_unlinkat:
        if ((int)a[2] & ~AT_REMOVEDIR) return -EINVAL;
        return remove_entry(call, (int)a[0], a[1], (int)a[2]);
    case SYS_truncate: return truncate_file(call, a[0], (int64_t)a[1]);
    case SYS_execve: return start_program(call, AT_FDCWD, a[0], 0);
    case SYS_execveat: return start_program(call, (int)a[0], a[1], (int)a[4]);
    case SYS_socket: return make_socket(call);
    case SYS_bind: return bind_socket(call);
    case SYS_listen: return listen_socket(call);
    case SYS_connect: return connect_socket(call);
    case SYS_umask: return umask_changed = 1, CONTINUE;
    default: {
        int result = handle_processes(call, number);
        return result == -ENOSYS ? handle_metadata(call, number) : result;
    }
    }
}

static void serve_call(void) {
    struct seccomp_notif notification = {0};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &notification)) return; /* the caller has been killed */
    uint64_t args[6];
    for (int i = 0; i < 6; i++) args[i] = notification.data.args[i];
    struct call call = {notification.id, (pid_t)notification.pid, args};
    if (policy_fd >= 0) lock_session(1);
    int result = dispatch(&call, notification.data.nr);
    if (policy_fd >= 0) lock_session(0);
    if (result == CONTINUE) answer(&call, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
    else if (result != ANSWERED) answer(&call, 0, result, 0);
}

/* --- processes */

static pid_t read_parent(pid_t pid) {
    char path[64], text[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[got > 0 ? got : 0] = 0;
    char *end = strrchr(text, ')');
    return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* Processes whose orphans we adopt are our descendants, and so are their threads. */
int is_descendant(pid_t pid) {
    pid_t above = pid;
    while (above > 1 && above != getpid()) above = read_parent(above);
    return above == getpid() && pid != above;
}

void for_each_descendant(void (*act)(pid_t pid, void *data), void *data) {
    DIR *processes = opendir("/proc");
    if (!processes) return;
    for (struct dirent *each; (each = readdir(processes));) {
        pid_t pid = atoi(each->d_name);
        if (is_descendant(pid)) act(pid, data);
    }
    closedir(processes);
}

static void kill_process(pid_t pid, void *unused) {
    (void)unused;
    pid_t group = getpgid(pid);
    if (group > 0 && group != getpgrp()) kill(-group, SIGKILL);
    kill(pid, SIGKILL);
}

/* Reap what has ended; the exit code of `shell` if it is among that, else -1. Sets `left` if processes are left. */
static int reap(pid_t shell, int *left) {
    int code = -1, status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == shell) code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    *left = pid == 0;
    return code;
}

static int kill_all(pid_t shell) {
    int code = -1, left = 1;
    time_t until = time(NULL) + KILL_TIMEOUT_SECONDS;
    for (;;) {
        int found = reap(shell, &left);
        if (found >= 0) code = found;
        if (!left) log_record(ENDED, NULL, "", "");
        if (!left || time(NULL) > until) return code;
        for_each_descendant(kill_process, NULL);
        usleep(500);
    }
}

static int serve(pid_t shell, int lifeline, int children) {
    struct pollfd ready[] = {{listener, POLLIN, 0}, {children, POLLIN, 0}, {lifeline, 0, 0}};
    int code = -1, left;
    while (code < 0) {
        if (poll(ready, 3, -1) < 0) continue;
        if (ready[0].revents & POLLIN) serve_call();
        else if (ready[0].revents) ready[0].fd = -1; /* nobody is left who could call */
        if (ready[1].revents) {
            struct signalfd_siginfo ignored;
            while (read(children, &ignored, sizeof ignored) > 0) {}
            code = reap(shell, &left);
        }
        if (ready[2].revents) break;
    }
    int last = kill_all(shell);
    remove_all_ipc();
    return code >= 0 ? code : last >= 0 ? last : 128 + SIGKILL;
}

/* --- options */

static void add_root(const char *path, const char *store, int own_only) {
    struct stat st;
    if (root_count == MAX_ROOTS || stat(path, &st)) stop("cannot use the root ", path);
    struct root *root = &roots[root_count++];
    *root = (struct root){path, store ? store : "", -1, store || own_only, own_only, (unsigned)st.st_dev};
    if (store) check_births(path);
    if (store && (root->store = open(store, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0) stop("cannot use the store ", store);
}

static uint64_t parse_number(const char *text) {
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    if (!*text || *end) stop("not a number: ", text);
    return value;
}

int main(int count, char **words) {
    static struct launch launch = {.filters = {-1, -1}};
    const char *log = NULL;
    int lifeline = -1, next = 1;
    launch.readable = calloc((size_t)count, sizeof *launch.readable);
    if (!launch.readable) stop("out of memory", "");
    for (; next < count && strcmp(words[next], "--"); next++) {
        const char *word = words[next];
        if (word[0] != '-' || !word[1] || word[2]) stop("not understood: ", word);
        if (word[1] == 'n') {
            launch.network = 1;
            continue;
        }
        if (next + 1 >= count) stop("nothing follows ", word);
        const char *value = words[++next];
        switch (word[1]) {
        case 'L': lifeline = (int)parse_number(value); break;
        case 'l': log = value; break;
        case 'f': launch.filters[launch.filters[0] >= 0] = (int)parse_number(value); break;
        case 'R':
            if (next + 1 >= count) stop("nothing follows ", value);
            add_root(value, words[++next], 0);
            break;
        case 'O': add_root(value, NULL, 0); break;
        case 'T': add_root(value, NULL, 1); break;
        case 'w':
            if (writable_count == MAX_ROOTS) stop("too many places: ", value);
            writable_places[writable_count++] = value;
            break;
        case 'r':
            launch.readable[launch.readable_count++] = value;
            break;
        case 'h': hide(value); break;
        case 'k': launch.mark = parse_number(value); break;
        case 'i': allow_listener(parse_number(value)); break;
        case 'q': policy_fd = (int)parse_number(value); break;
        case 'g': open_registry(value); break;
        case 'm': launch.memory_set = 1, launch.memory = parse_number(value); break;
        case 'p': launch.processes_set = 1, launch.processes = parse_number(value); break;
        default: stop("not understood: ", word);
        }
    }
    if (next + 1 >= count || !log || lifeline < 0 || launch.filters[1] < 0) stop("something is missing", "");
    launch.command = words + next + 1;
    for (int i = 0; i < 2; i++) fcntl(launch.filters[i], F_SETFD, FD_CLOEXEC);
    fcntl(lifeline, F_SETFD, FD_CLOEXEC);
    if (policy_fd >= 0) fcntl(policy_fd, F_SETFD, FD_CLOEXEC);
    open_log(log);
    prepare_programs(&launch);
    signal(SIGPIPE, SIG_IGN);
    sigset_t handled;
    sigemptyset(&handled);
    sigaddset(&handled, SIGCHLD);
    sigprocmask(SIG_BLOCK, &handled, NULL);
    int children = signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC);
    if (children < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) stop("cannot watch processes", "");
    drop_capabilities();
    pid_t shell = start_command(&launch);
    if (listener >= 0) ioctl(listener, NOTIFY_SET_FLAGS, NOTIFY_SYNC_WAKE_UP); /* an older kernel is slower */
    if (listener >= 0 && log_record(STARTED, NULL, "", "")) kill(shell, SIGKILL); /* no room for a log */
    return serve(shell, lifeline, children);
}
