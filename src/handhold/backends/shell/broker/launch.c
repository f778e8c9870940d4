/* Start the command: without privileges, with no right to change the workspace, and with the filter whose notifications
   the broker answers. Every step must succeed, or the command does not run. */

#include "broker.h"
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define CHANGES_FROM 4 /* removing a folder ... */
#define CHANGES_TO 12  /* ... making a symbolic link */
#define WRITE_FILE (1ULL << 1)
#define READ_FILE (1ULL << 2)
#define READ_DIR (1ULL << 3)
#define REFER (1ULL << 13)
#define TRUNCATE (1ULL << 14)
#define MIN_LANDLOCK 3 /* the first that covers truncation */
#define NETWORK_LANDLOCK 4
#define SCOPES_LANDLOCK 6
#define MAX_STEPS 2048

struct ruleset { uint64_t files, network, scopes; };

/* Root keeps what it needs to act as any owner, as in tar; the broker acts with exactly the same rights. */
void drop_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    uint32_t kept = 1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE | 1U << CAP_FOWNER | 1U << CAP_FSETID;
    if (syscall(SYS_capget, &header, data)) stop("cannot read capabilities", "");
    data[0].permitted &= kept, data[0].effective &= kept, data[0].inheritable = 0;
    data[1].permitted = data[1].effective = data[1].inheritable = 0;
    if (syscall(SYS_capset, &header, data)) stop("cannot give up capabilities", "");
}

static void add_rule(int ruleset, const char *place, uint64_t allowed) {
    struct stat st;
    int fd = open(place, O_PATH | O_CLOEXEC);
    if (fd < 0) return; /* nothing is there */
    if (!fstat(fd, &st) && !S_ISDIR(st.st_mode)) allowed &= WRITE_FILE | READ_FILE | TRUNCATE;
    struct landlock_path_beneath_attr rule = {allowed, fd};
    if (allowed && syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) && errno != EBADFD)
        stop("Landlock does not take ", place);
    close(fd);
}

static void restrict_files(const struct launch *launch) {
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < MIN_LANDLOCK) stop("this kernel has no Landlock that covers truncation", "");
    uint64_t changes = WRITE_FILE | REFER | TRUNCATE, reads = READ_FILE;
    for (int right = CHANGES_FROM; right <= CHANGES_TO; right++) changes |= 1ULL << right;
    struct ruleset rules = {changes | reads, 0, 0};
    if (version >= NETWORK_LANDLOCK && !launch->network) rules.network = 3;
    if (version >= SCOPES_LANDLOCK) rules.scopes = launch->network ? 2 : 3;
    size_t size = version >= SCOPES_LANDLOCK ? 24 : version >= NETWORK_LANDLOCK ? 16 : 8;
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0);
    if (ruleset < 0) stop("Landlock refuses", "");
    for (int i = 0; i < writable_count; i++) add_rule(ruleset, writable_places[i], changes | reads);
    for (int i = 0; i < launch->readable_count; i++) add_rule(ruleset, launch->readable[i], reads);
    if (syscall(SYS_landlock_restrict_self, ruleset, 0)) stop("Landlock cannot be enforced", "");
    close(ruleset);
}

static int load_filter(int fd, unsigned flags) {
    static struct sock_filter steps[MAX_STEPS];
    ssize_t size = pread(fd, steps, sizeof steps, 0);
    if (size <= 0 || size % 8 || size == sizeof steps) stop("the filter cannot be read", "");
    struct sock_fprog program = {(unsigned short)(size / 8), steps};
    long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (result < 0) stop("the kernel does not take the filter: ", strerror(errno));
    return (int)result;
}

static void set_limit(int which, uint64_t most) {
    struct rlimit old, limit = {most, most};
    if (!getrlimit(which, &old) && old.rlim_max < most) return;
    if (setrlimit(which, &limit)) stop("cannot set a limit", "");
}

static void send_descriptor(int over, int fd) {
    char byte = 0, control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    if (sendmsg(over, &message, 0) < 0) stop("the broker does not take the filter's descriptor", "");
}

static int receive_descriptor(int over) {
    int fd = -1;
    char byte, control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(over, &message, MSG_CMSG_CLOEXEC) <= 0) return -1;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS) memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

__attribute__((noreturn)) static void run_command(const struct launch *launch, int over) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    set_limit(RLIMIT_CORE, 0);
    if (launch->mark) set_limit(RLIMIT_RTTIME, launch->mark);
    if (launch->memory_set) set_limit(RLIMIT_AS, launch->memory);
    if (launch->processes_set) set_limit(RLIMIT_NPROC, launch->processes);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) stop("cannot give up privileges", "");
    restrict_files(launch);
    load_filter(launch->filters[0], SECCOMP_FILTER_FLAG_SPEC_ALLOW);
    int notify = load_filter(launch->filters[1], SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_SPEC_ALLOW |
                                                     SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
    send_descriptor(over, notify);
    close(notify);
    close(over);
    execvp(launch->command[0], launch->command);
    int missing = errno == ENOENT;
    fprintf(stderr, "handhold: %s: %s\n", launch->command[0], strerror(errno));
    _exit(missing ? 127 : 126);
}

/* Returns the pid of the command's first process; `listener` is then open, or -1 if it could not be started. */
pid_t start_command(const struct launch *launch) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) stop("cannot create a socket pair", "");
    pid_t child = fork();
    if (child < 0) stop("cannot fork: ", strerror(errno));
    if (!child) {
        close(pair[0]);
        run_command(launch, pair[1]);
    }
    close(pair[1]);
    listener = receive_descriptor(pair[0]);
    close(pair[0]);
    return child;
}
