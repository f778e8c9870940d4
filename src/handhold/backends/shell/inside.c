/* The last step before a command, inside the sandbox: Landlock, limits, then the command itself.
   A search program is started by it too, without a sandbox, to read what it searches and nothing else.

   inside [-w PATH | -e PATH]... [-r PATH]... [-l PATH]... [-s] [-m BYTES] [-p COUNT] [-u FD] [-n FD] [-c FD -o FD]
          [-x FD] [-0 FD] [-1 FD] [-2 FD] -- COMMAND [ARGUMENT]...
   inside -j FD | -d -- BUBBLEWRAP [ARGUMENT]...

   -w  below PATH the command may write; given once or more, it may write nowhere else
   -e  below PATH it may bind sockets, and everything else is done by whoever listens at -o
   -c  a filter is read from here, whose notifications
   -o  are handed out over this socket
   -r  below PATH it may read; given once or more, it may read nowhere else, and write only below -w.
       No link is followed on the way to PATH: whoever could turn one would choose what is read
   -l  below PATH it may list folders, but read no file; links as with -r
   -s  no abstract sockets and no signals to what is outside
   -m  address space of each process
   -p  processes of this user
   -n  a socket that listens on 127.0.0.1:3128 is opened and handed out over this one, to whoever serves it outside
   -u  the network namespace is handed out over this socket, for other commands to join
   -x  the command does not get this descriptor, which bubblewrap needed and left open
   -0, -1, -2  the command gets this descriptor as its standard input, output or error; all messages before it starts
       go to ours
   -j  join this network namespace, and the user namespace that owns it if that takes privileges; outside a sandbox
   -d  the devices that bubblewrap shows are read-only: root could change their modes; outside a sandbox

   Without a C library, so that it starts in no time and runs with any: each command passes through here. */

#include <asm/unistd.h>
#include <linux/prctl.h>
#include <stddef.h>
#include <stdint.h>

#define O_PATH 010000000
#define O_CLOEXEC 02000000
#define AT_FDCWD (-100)
#define ENOENT 2
#define ENOTDIR 20
#define EACCES 13
#define EBADFD 77
#define S_IFMT 0170000
#define S_IFDIR 0040000
#define AT_EMPTY_PATH 0x1000
#define STATX_TYPE 1
#define POLLERR 8
#define RLIMIT_CORE 4
#define RLIMIT_NPROC 6
#define RLIMIT_AS 9
#define AF_INET 2
#define SOCK_STREAM_CLOEXEC (1 | O_CLOEXEC)
#define SOL_SOCKET 1
#define SCM_RIGHTS 1
#define PROXY_PORT 3128
#define CLONE_NEWUSER 0x10000000
#define CLONE_NEWNET 0x40000000
#define NS_GET_USERNS 0xb701
#define CLONE_NEWNS 0x20000
#define MS_RDONLY 1
#define MS_NOSUID 2
#define MS_NOEXEC 8
#define MS_REMOUNT 32
#define MS_BIND 4096
#define MS_REC 16384
#define MS_SLAVE (1 << 19)

/* Landlock, as its kernel documentation gives it: the rights to change something, and those to read. */
#define WRITE_FILE (1ULL << 1)
#define READ_FILE (1ULL << 2)
#define READ_DIR (1ULL << 3)
#define CHANGES_FROM 4 /* from removing a folder ... */
#define CHANGES_TO 12  /* ... to making a link */
#define MAKE_SOCKET (1ULL << 9) /* nobody can open one as a file */
#define REFER (1ULL << 13)
#define TRUNCATE (1ULL << 14)
#define ABSTRACT_SOCKETS (1ULL << 0)
#define SIGNALS (1ULL << 1)
#define RULE_PATH_BENEATH 1
#define TELL_VERSION 1
#define NO_LINKS (0x02 | 0x04) /* openat2: neither magic links nor others */

/* Older headers do not have them; they are the same on every machine. */
#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_add_rule 445
#define __NR_landlock_restrict_self 446
#endif
#ifndef __NR_openat2
#define __NR_openat2 437
#endif

#define SET_FILTER 1
#define NEW_LISTENER (1UL << 3)
#define WAIT_KILLABLE (1UL << 5) /* a signal does not repeat what was done already */
#define MOST_STEPS 512

struct ruleset { uint64_t files, network, scopes; };
struct __attribute__((packed)) beneath { uint64_t allowed; int32_t folder; };
struct limit { uint64_t now, most; };

static long call(long number, long a, long b, long c, long d, long e) {
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
#else
#error "no system calls for this machine"
#endif
}

static size_t length(const char *text) {
    size_t count = 0;
    while (text[count]) count++;
    return count;
}

static void say(const char *text) { call(__NR_write, 2, (long)text, length(text), 0, 0); }

__attribute__((noreturn)) static void stop(const char *why, const char *what, int status) {
    say("handhold: ");
    say(why);
    say(what);
    say("\n");
    for (;;) call(__NR_exit_group, status, 0, 0, 0, 0);
}

static uint64_t number(const char *text) {
    uint64_t value = 0;
    if (!*text) stop("not a number: ", text, 125);
    for (; *text; text++) {
        if (*text < '0' || *text > '9') stop("not a number: ", text, 125);
        value = value * 10 + (uint64_t)(*text - '0');
    }
    return value;
}

static void limit(int which, uint64_t most) {
    struct limit given = {most, most}, old;
    if (call(__NR_prlimit64, 0, which, 0, (long)&old, 0) == 0 && old.most < most) return;
    if (call(__NR_prlimit64, 0, which, (long)&given, 0, 0) < 0) stop("cannot set a limit", "", 125);
}

static int is_folder(int fd) {
    struct { uint32_t mask, block; uint64_t attributes; uint32_t links, owner, group; uint16_t mode, spare; char rest[256]; } seen;
    return call(__NR_statx, fd, (long)"", AT_EMPTY_PATH, STATX_TYPE, (long)&seen) == 0 && (seen.mode & S_IFMT) == S_IFDIR;
}

/* Each option in `words` that names a place becomes a rule. */
static void land(char **words, int count, int scoped, int reads, long version) {
    uint64_t changes = WRITE_FILE | REFER, looks = reads ? READ_FILE | READ_DIR : 0;
    for (int right = CHANGES_FROM; right <= CHANGES_TO; right++) changes |= 1ULL << right;
    if (version >= 3) changes |= TRUNCATE;
    struct ruleset rules = {changes | looks, 0, scoped ? ABSTRACT_SOCKETS | SIGNALS : 0};
    /* An older kernel knows a shorter structure, and takes the longer one if the rest of it is zero. */
    long ruleset = call(__NR_landlock_create_ruleset, (long)&rules, sizeof rules, 0, 0, 0);
    if (ruleset < 0) stop("Landlock refuses", "", 125);
    for (int i = 0; i < count; i++) {
        char kind = words[i][1];
        if (kind == 's') continue;
        char *place = words[++i];
        if (kind != 'w' && kind != 'e' && kind != 'r' && kind != 'l') continue;
        struct { uint64_t flags, mode, resolve; } how = {O_PATH | O_CLOEXEC, 0, NO_LINKS};
        long fd = kind == 'w' || kind == 'e' /* in a sandbox, whose filter has no openat2 */
            ? call(__NR_openat, AT_FDCWD, (long)place, O_PATH | O_CLOEXEC, 0, 0)
            : call(__NR_openat2, AT_FDCWD, (long)place, (long)&how, sizeof how, 0);
        if (fd < 0) continue; /* nothing is there, so nothing can be done there */
        uint64_t allowed = kind == 'w' ? changes | looks : kind == 'e' ? MAKE_SOCKET | looks
                         : kind == 'r' ? looks : READ_DIR;
        if (!is_folder((int)fd)) allowed &= WRITE_FILE | TRUNCATE | READ_FILE;
        struct beneath rule = {allowed, (int32_t)fd};
        long failed = allowed ? call(__NR_landlock_add_rule, ruleset, RULE_PATH_BENEATH, (long)&rule, 0, 0) : 0;
        if (failed && failed != -EBADFD) /* Landlock restricts neither pipes nor sockets, and takes no rule for them */
            stop("Landlock does not take ", place, 125);
        call(__NR_close, fd, 0, 0, 0, 0);
    }
    if (call(__NR_landlock_restrict_self, ruleset, 0, 0, 0, 0) < 0) stop("Landlock does not hold", "", 125);
    call(__NR_close, ruleset, 0, 0, 0, 0);
}

static void hand_over(long fd, int over) {
    struct { uint64_t size; int32_t level, kind; int32_t fd, padding; } rights = {20, SOL_SOCKET, SCM_RIGHTS, (int32_t)fd, 0};
    struct { const char *start; size_t size; } byte = {"", 1};
    struct { void *name; uint32_t name_size; void *pieces; size_t count; void *control; size_t size; int flags; } message = {
        0, 0, &byte, 1, &rights, sizeof rights, 0};
    if (call(__NR_sendmsg, over, (long)&message, 0, 0, 0) < 0) stop("nobody takes what is handed out", "", 125);
    call(__NR_close, fd, 0, 0, 0, 0);
    call(__NR_close, over, 0, 0, 0, 0);
}

/* A proxy outside shall hear who connects in here, where its network is not: it gets the listening socket itself. */
static void hand_out(int over) {
    struct { uint16_t family, port; uint32_t address; char rest[8]; } here = {
        AF_INET, (uint16_t)(PROXY_PORT >> 8 | (PROXY_PORT & 255) << 8), 0x0100007f, {0}};
    long listener = call(__NR_socket, AF_INET, SOCK_STREAM_CLOEXEC, 0, 0, 0);
    if (listener < 0 || call(__NR_bind, listener, (long)&here, sizeof here, 0, 0) < 0 ||
        call(__NR_listen, listener, 128, 0, 0, 0) < 0)
        stop("cannot listen for the proxy", "", 125);
    hand_over(listener, over);
}

static void hand_out_namespace(int over) {
    long namespace = call(__NR_openat, AT_FDCWD, (long)"/proc/self/ns/net", O_CLOEXEC, 0, 0);
    if (namespace < 0) stop("cannot open the network namespace", "", 125);
    hand_over(namespace, over);
}

/* Without privileges one gets them in the namespace that owns this one, and loses them with the next program. */
static void join(int network) {
    if (call(__NR_setns, network, CLONE_NEWNET, 0, 0, 0) < 0) {
        long owner = call(__NR_ioctl, network, NS_GET_USERNS, 0, 0, 0);
        if (owner < 0 || call(__NR_setns, owner, CLONE_NEWUSER, 0, 0, 0) < 0 ||
            call(__NR_setns, network, CLONE_NEWNET, 0, 0, 0) < 0)
            stop("cannot join the session's loopback", "", 125);
        call(__NR_close, owner, 0, 0, 0, 0);
    }
    call(__NR_close, network, 0, 0, 0, 0);
}

/* They are the machine's own, and data goes to and fro in a read-only place too. Without the right to mount, we have
   none over devices either. */
static void keep_devices(void) {
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"};
    if (call(__NR_unshare, CLONE_NEWNS, 0, 0, 0, 0) < 0) return;
    if (call(__NR_mount, (long)"", (long)"/", 0, MS_REC | MS_SLAVE, 0) < 0) stop("cannot keep mounts apart", "", 125);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        long place = (long)devices[i], failed = call(__NR_mount, place, place, 0, MS_BIND, 0);
        if (!failed) failed = call(__NR_mount, 0, place, 0, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NOEXEC, 0);
        if (failed && failed != -ENOENT) stop("cannot make it read-only: ", devices[i], 125);
    }
}

/* From here on the calls that the filter names wait for an answer from outside. */
static void supervise(int filter, int over) {
    static struct { uint16_t code; uint8_t then, otherwise; uint32_t value; } steps[MOST_STEPS];
    struct { uint16_t count; void *steps; } program = {0, steps};
    long size = 0, more;
    while ((more = call(__NR_pread64, filter, (long)steps + size, (long)sizeof steps - size, size, 0)) > 0) size += more;
    if (more < 0 || !size || size % 8) stop("the filter cannot be read", "", 125);
    program.count = (uint16_t)(size / 8);
    long listener = call(__NR_seccomp, SET_FILTER, NEW_LISTENER | WAIT_KILLABLE, (long)&program, 0, 0);
    if (listener < 0) stop("the kernel does not take the filter", "", 125);
    call(__NR_close, filter, 0, 0, 0, 0);
    hand_over(listener, over);
}

/* Whether nobody is left to read what the command prints: whoever started it died while the sandbox was being made.
   Bubblewrap's own tie to them holds only from here on. */
static int abandoned(void) {
    struct { int32_t fd; int16_t asked, seen; } printed = {1, 0, 0};
    struct { int64_t seconds, nanoseconds; } at_once = {0, 0};
    return call(__NR_ppoll, (long)&printed, 1, (long)&at_once, 0, 0) == 1 && (printed.seen & POLLERR);
}

static void use_streams(const int *streams) {
    for (int i = 0; i < 3; i++) {
        if (streams[i] < 0) continue;
        if (call(__NR_dup3, streams[i], i, 0, 0, 0) < 0) stop("cannot use the descriptor that was passed on", "", 125);
        call(__NR_close, streams[i], 0, 0, 0, 0);
    }
}

/* As execvp(3): a name without a slash is looked for along PATH. */
static long run(char **command, char **environment) {
    static char full[4097];
    const char *name = command[0], *path = "";
    long found = -ENOENT;
    size_t wanted = length(name);
    for (const char *c = name; *c; c++)
        if (*c == '/') return call(__NR_execve, (long)name, (long)command, (long)environment, 0, 0);
    for (char **each = environment; *each; each++) {
        const char *e = *each;
        if (e[0] == 'P' && e[1] == 'A' && e[2] == 'T' && e[3] == 'H' && e[4] == '=') path = e + 5;
    }
    while (wanted) {
        size_t size = 0;
        while (path[size] && path[size] != ':') size++;
        if (size && size + 1 + wanted < sizeof full) {
            for (size_t i = 0; i < size; i++) full[i] = path[i];
            full[size] = '/';
            for (size_t i = 0; i <= wanted; i++) full[size + 1 + i] = name[i];
            long tried = call(__NR_execve, (long)full, (long)command, (long)environment, 0, 0);
            if (tried != -ENOENT && tried != -ENOTDIR) found = tried;
            if (tried != -ENOENT && tried != -ENOTDIR && tried != -EACCES) break;
        }
        if (!path[size]) break;
        path += size + 1;
    }
    return found;
}

__attribute__((noreturn, used)) static void start(long *stack) {
    int count = (int)stack[0], next = 1, places = 0, reads = 0, scoped = 0, proxy = -1, filter = -1, over = -1, namespace = -1;
    int streams[3] = {-1, -1, -1};
    char **words = (char **)(stack + 1), **environment = words + count + 1;
    for (; next < count; next++) {
        char *word = words[next];
        if (word[0] != '-' || !word[1] || word[2]) stop("not understood: ", word, 125);
        if (word[1] == '-') break;
        if (word[1] == 's') { scoped = 1; continue; }
        if (word[1] == 'd') { keep_devices(); continue; }
        if (next + 1 >= count) stop("nothing follows ", word, 125);
        char *value = words[++next];
        if (word[1] == 'w' || word[1] == 'e') places++;
        else if (word[1] == 'r' || word[1] == 'l') places++, reads++;
        else if (word[1] == 'm') limit(RLIMIT_AS, number(value));
        else if (word[1] == 'p') limit(RLIMIT_NPROC, number(value));
        else if (word[1] == 'n') proxy = (int)number(value);
        else if (word[1] == 'u') namespace = (int)number(value);
        else if (word[1] == 'j') join((int)number(value));
        else if (word[1] == 'x') call(__NR_close, (long)number(value), 0, 0, 0, 0);
        else if (word[1] == 'c') filter = (int)number(value);
        else if (word[1] == 'o') over = (int)number(value);
        else if (word[1] >= '0' && word[1] <= '2') streams[word[1] - '0'] = (int)number(value);
        else stop("not understood: ", word, 125);
    }
    int options = next - 1;
    if (++next >= count) stop("no command", "", 125);
    limit(RLIMIT_CORE, 0);
    if (call(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) stop("cannot give up privileges", "", 125);
    if (namespace >= 0) hand_out_namespace(namespace);
    if (proxy >= 0) hand_out(proxy);
    if (places) {
        long version = call(__NR_landlock_create_ruleset, 0, 0, TELL_VERSION, 0, 0);
        if (version < 2) stop("there is no Landlock here", "", 125);
        land(words + 1, options, scoped, reads, version);
    }
    if (filter >= 0) supervise(filter, over);
    if (abandoned()) stop("nobody reads what it prints: ", words[next], 125);
    use_streams(streams);
    long failed = run(words + next, environment);
    stop(failed == -ENOENT ? "no such command: " : "cannot run ", words[next], failed == -ENOENT ? 127 : 126);
}

/* Where the kernel begins: arguments and environment lie on the stack. */
#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n xor %ebp,%ebp\n mov %rsp,%rdi\n and $-16,%rsp\n call start\n");
#else
__asm__(".globl _start\n_start:\n mov x29,#0\n mov x0,sp\n bl start\n");
#endif
