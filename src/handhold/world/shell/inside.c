/* The last step before a command, inside the sandbox: Landlock, limits, then the command itself.

   inside [-w PATH]... [-s] [-m BYTES] [-p COUNT] [-n FD] -- COMMAND [ARGUMENT]...

   -w  below PATH the command may write; given once or more, it may write nowhere else
   -s  no abstract sockets and no signals to what is outside
   -m  address space of each process
   -p  processes of this user
   -n  a socket that listens on 127.0.0.1:3128 is opened and handed out over this one, to whoever serves it outside

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

/* Landlock, as its kernel documentation gives it: the rights to change something. Reading stays open to all. */
#define WRITE_FILE (1ULL << 1)
#define CHANGES_FROM 4 /* from removing a folder ... */
#define CHANGES_TO 12  /* ... to making a link */
#define REFER (1ULL << 13)
#define TRUNCATE (1ULL << 14)
#define ABSTRACT_SOCKETS (1ULL << 0)
#define SIGNALS (1ULL << 1)
#define RULE_PATH_BENEATH 1
#define TELL_VERSION 1

/* Older headers do not have them; they are the same on every machine. */
#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_add_rule 445
#define __NR_landlock_restrict_self 446
#endif

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

static void land(char **places, int count, int scoped, long version) {
    uint64_t changes = WRITE_FILE | REFER;
    for (int right = CHANGES_FROM; right <= CHANGES_TO; right++) changes |= 1ULL << right;
    if (version >= 3) changes |= TRUNCATE;
    struct ruleset rules = {changes, 0, scoped ? ABSTRACT_SOCKETS | SIGNALS : 0};
    /* An older kernel knows a shorter structure, and takes the longer one if the rest of it is zero. */
    long ruleset = call(__NR_landlock_create_ruleset, (long)&rules, sizeof rules, 0, 0, 0);
    if (ruleset < 0) stop("Landlock refuses", "", 125);
    for (int i = 0; i < count; i++) {
        long fd = call(__NR_openat, AT_FDCWD, (long)places[i], O_PATH | O_CLOEXEC, 0, 0);
        if (fd < 0) continue; /* nothing is there, so nothing can be written there */
        struct beneath rule = {is_folder((int)fd) ? changes : changes & (WRITE_FILE | TRUNCATE), (int32_t)fd};
        if (call(__NR_landlock_add_rule, ruleset, RULE_PATH_BENEATH, (long)&rule, 0, 0) < 0)
            stop("Landlock does not take ", places[i], 125);
        call(__NR_close, fd, 0, 0, 0, 0);
    }
    if (call(__NR_landlock_restrict_self, ruleset, 0, 0, 0, 0) < 0) stop("Landlock does not hold", "", 125);
    call(__NR_close, ruleset, 0, 0, 0, 0);
}

/* A proxy outside shall hear who connects in here, where its network is not: it gets the listening socket itself. */
static void hand_out(int over) {
    struct { uint16_t family, port; uint32_t address; char rest[8]; } here = {
        AF_INET, (uint16_t)(PROXY_PORT >> 8 | (PROXY_PORT & 255) << 8), 0x0100007f, {0}};
    struct { uint64_t size; int32_t level, kind; int32_t fd, padding; } rights = {20, SOL_SOCKET, SCM_RIGHTS, 0, 0};
    struct { const char *start; size_t size; } byte = {"", 1};
    struct { void *name; uint32_t name_size; void *pieces; size_t count; void *control; size_t size; int flags; } message = {
        0, 0, &byte, 1, &rights, sizeof rights, 0};
    long listener = call(__NR_socket, AF_INET, SOCK_STREAM_CLOEXEC, 0, 0, 0);
    if (listener < 0 || call(__NR_bind, listener, (long)&here, sizeof here, 0, 0) < 0 ||
        call(__NR_listen, listener, 128, 0, 0, 0) < 0)
        stop("cannot listen for the proxy", "", 125);
    rights.fd = (int32_t)listener;
    if (call(__NR_sendmsg, over, (long)&message, 0, 0, 0) < 0) stop("nobody serves the network", "", 125);
    call(__NR_close, listener, 0, 0, 0, 0);
    call(__NR_close, over, 0, 0, 0, 0);
}

/* Whether nobody is left to read what the command prints: whoever started it died while the sandbox was being made.
   Bubblewrap's own tie to them holds only from here on. */
static int abandoned(void) {
    struct { int32_t fd; int16_t asked, seen; } printed = {1, 0, 0};
    struct { int64_t seconds, nanoseconds; } at_once = {0, 0};
    return call(__NR_ppoll, (long)&printed, 1, (long)&at_once, 0, 0) == 1 && (printed.seen & POLLERR);
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
    int count = (int)stack[0], next = 1, places = 0, scoped = 0, proxy = -1;
    char **words = (char **)(stack + 1), **environment = words + count + 1;
    for (; next < count; next++) {
        char *word = words[next];
        if (word[0] != '-' || !word[1] || word[2]) stop("not understood: ", word, 125);
        if (word[1] == '-') { next++; break; }
        if (word[1] == 's') { scoped = 1; continue; }
        if (next + 1 >= count) stop("nothing follows ", word, 125);
        char *value = words[++next];
        if (word[1] == 'w') words[++places] = value; /* kept at the front, where it was read already */
        else if (word[1] == 'm') limit(RLIMIT_AS, number(value));
        else if (word[1] == 'p') limit(RLIMIT_NPROC, number(value));
        else if (word[1] == 'n') proxy = (int)number(value);
        else stop("not understood: ", word, 125);
    }
    if (next >= count) stop("no command", "", 125);
    limit(RLIMIT_CORE, 0);
    if (call(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) stop("cannot give up privileges", "", 125);
    if (proxy >= 0) hand_out(proxy);
    if (places) {
        long version = call(__NR_landlock_create_ruleset, 0, 0, TELL_VERSION, 0, 0);
        if (version < 2) stop("there is no Landlock here", "", 125);
        land(words + 1, places, scoped, version);
    }
    if (abandoned()) stop("nobody reads what it prints: ", words[next], 125);
    long failed = run(words + next, environment);
    stop(failed == -ENOENT ? "no such command: " : "cannot run ", words[next], failed == -ENOENT ? 127 : 126);
}

/* Where the kernel begins: arguments and environment lie on the stack. */
#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n xor %ebp,%ebp\n mov %rsp,%rdi\n and $-16,%rsp\n call start\n");
#else
__asm__(".globl _start\n_start:\n mov x29,#0\n mov x0,sp\n bl start\n");
#endif
