/* From what a caller wrote to the entry or object that it means. The broker resolves a path once, itself, and works on
   the descriptor from then on. */

#include "broker.h"
#include <linux/openat2.h>
#include <sys/socket.h>
#include <sys/uio.h>

int umask_changed;
int policy_fd = -1;

int read_memory(const struct call *call, uint64_t address, void *data, size_t size) {
    static int is_refused; /* some containers refuse the faster call */
    char name[64];
    struct iovec to = {data, size}, from = {(void *)(uintptr_t)address, size};
    ssize_t copied = is_refused ? -1 : process_vm_readv(call->tid, &to, 1, &from, 1, 0);
    if (copied >= 0) return (int)copied;
    if (!is_refused) is_refused = errno == EPERM || errno == ENOSYS;
    snprintf(name, sizeof name, "/proc/%d/mem", call->tid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -EACCES; /* a process that is not dumpable: its calls cannot be understood */
    ssize_t got = pread(fd, data, size, (off_t)address);
    close(fd);
    return got < 0 ? -EFAULT : (int)got;
}

int read_path(const struct call *call, uint64_t address, char *path) {
    int got = read_memory(call, address, path, MAX_PATH);
    if (got == -EFAULT) { /* the string may end right before a page that cannot be read */
        size_t size = 4096 - address % 4096;
        got = read_memory(call, address, path, size < MAX_PATH ? size : MAX_PATH);
    }
    if (got < 0) return got;
    if (!memchr(path, 0, (size_t)got)) return got < MAX_PATH ? -EFAULT : -ENAMETOOLONG;
    return 0;
}

int is_below(const char *path, const char *top) {
    size_t size = strlen(top);
    return !strncmp(path, top, size) && (!path[size] || path[size] == '/' || (size && top[size - 1] == '/'));
}

/* The innermost root that contains a path. What an earlier call put into a store belongs to the root of that store. */
const struct root *find_root(const char *path) {
    const struct root *found = NULL;
    size_t longest = 0;
    for (int i = 0; i < root_count; i++) {
        if (roots[i].store_path[0] && is_below(path, roots[i].store_path)) return &roots[i];
        if (is_below(path, roots[i].path) && strlen(roots[i].path) >= longest) {
            found = &roots[i];
            longest = strlen(roots[i].path);
        }
    }
    return found && found->own_only && is_writable_place(path) ? NULL : found;
}

int is_writable_place(const char *path) {
    for (int i = 0; i < writable_count; i++)
        if (is_below(path, writable_places[i])) return 1;
    return 0;
}

static int read_tgid(pid_t tid) {
    char name[64], text[512];
    snprintf(name, sizeof name, "/proc/%d/status", tid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    text[got > 0 ? got : 0] = 0;
    char *at = strstr(text, "\nTgid:");
    return at ? atoi(at + 6) : -1;
}

/* /proc/self, /dev/fd and the like mean the caller, not the broker. Returns what the path means for the caller, as an
   open descriptor, and skips it; -1 if the path does not start like that. */
static int open_own_descriptor(const struct call *call, const char **path) {
    static const char *const streams[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
    char name[64];
    const char *at = *path;
    int number = -1;
    for (int i = 0; i < 3; i++)
        if (!strcmp(at, streams[i])) number = i, at += strlen(at);
    if (number < 0) {
        if (!strncmp(at, "/dev/fd/", 8)) at += 8;
        else if (!strncmp(at, "/proc/", 6)) {
            char *end;
            at += 6;
            if (!strncmp(at, "self/", 5)) at += 5;
            else if (!strncmp(at, "thread-self/", 12)) at += 12;
            else {
                long pid = strtol(at, &end, 10);
                if (end == at || *end != '/' || (pid != call->tid && pid != read_tgid(call->tid))) return -1;
                at = end + 1;
            }
            if (!strncmp(at, "cwd", 3) && (!at[3] || at[3] == '/')) {
                snprintf(name, sizeof name, "/proc/%d/cwd", call->tid);
                *path = at + 3;
                return open(name, O_PATH | O_CLOEXEC);
            }
            if (strncmp(at, "fd/", 3)) return -1;
            at += 3;
        } else return -1;
        char *end;
        number = (int)strtol(at, &end, 10);
        if (end == at || (*end && *end != '/')) return -1;
        at = end;
    }
    snprintf(name, sizeof name, "/proc/%d/fd/%d", call->tid, number);
    *path = at;
    return open(name, O_PATH | O_CLOEXEC);
}

/* The descriptor from which the rest of a path is resolved. */
static int open_base(const struct call *call, int folder, const char **path) {
    char name[64];
    if (**path == '/') {
        int fd = open_own_descriptor(call, path);
        if (fd >= 0) {
            while (**path == '/') ++*path;
            return fd;
        }
        fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
    }
    if (folder == AT_FDCWD) snprintf(name, sizeof name, "/proc/%d/cwd", call->tid);
    else snprintf(name, sizeof name, "/proc/%d/fd/%d", call->tid, folder);
    int fd = open(name, O_PATH | O_CLOEXEC);
    return fd >= 0 ? fd : errno == ENOENT ? -EBADF : -EACCES;
}

static int open_below(int base, const char *path, int flags) {
    /* Inside an absolute path the leading slash would leave the base; the base is the root then. */
    struct open_how how = {.flags = (uint64_t)(flags | O_PATH | O_CLOEXEC), .resolve = RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, base, path, &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

/* By the path that it had, if no part of it has become a link since. */
int open_real_folder(const char *path) {
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    long fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

static int read_real_path(int fd, char *path) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(name, path, MAX_PATH);
    if (size < 0 || size >= MAX_PATH) return -ENAMETOOLONG;
    path[size] = 0;
    return 0;
}

/* A name in a folder that exists; the entry itself need not exist. The caller closes `entry->dir`. */
int resolve_entry(const struct call *call, int folder, const char *path, struct entry *entry) {
    char above[MAX_PATH];
    struct stat st;
    if (!*path) return -ENOENT;
    int base = open_base(call, folder, &path);
    if (base < 0) return base;
    size_t size = strlen(path);
    entry->has_slash = size && path[size - 1] == '/';
    while (size && path[size - 1] == '/') size--;
    size_t start = size;
    while (start && path[start - 1] != '/') start--;
    if (size - start > 255) return close(base), -ENAMETOOLONG;
    memcpy(entry->name, path + start, size - start);
    entry->name[size - start] = 0;
    if (!size || !strcmp(entry->name, ".") || !strcmp(entry->name, "..")) return close(base), CONTINUE;
    memcpy(above, path, start);
    above[start] = 0;
    int dir = open_below(base, start ? above : ".", O_DIRECTORY);
    close(base);
    if (dir < 0) return dir;
    int failed = read_real_path(dir, entry->path);
    if (failed) return close(dir), failed;
    if (fstat(dir, &st) || !st.st_nlink) return close(dir), -ENOENT;
    entry->dir = dir;
    entry->root = find_root(entry->path);
    for (int i = 0; i < root_count; i++) /* no name in a store is the command's business */
        if (roots[i].store_path[0] && is_below(entry->path, roots[i].store_path)) return close(dir), -EACCES;
    size = strlen(entry->path);
    snprintf(entry->path + size, sizeof entry->path - size, "%s%s", size && entry->path[size - 1] == '/' ? "" : "/", entry->name);
    return is_in_hidden_folder(entry->path) ? close(dir), -EACCES : 0;
}

/* As fstatat(), but `st_ctim`, which nobody needs, is the time of birth; 0 if it is not known. */
int stat_inode(int dir, const char *name, struct stat *st) {
    struct statx found;
    int flags = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH;
    if (fstatat(dir, name, st, flags)) return -errno;
    st->st_ctim = (struct timespec){0};
    if (!statx(dir, name, flags, STATX_INO | STATX_BTIME, &found) && found.stx_mask & STATX_BTIME && found.stx_ino == st->st_ino)
        st->st_ctim = (struct timespec){found.stx_btime.tv_sec, found.stx_btime.tv_nsec};
    return 0;
}

/* Whether an inode has lost the name by which it was opened: the kernel says so behind the path. */
static int is_replaced(const struct object *object) {
    static const char mark[] = " (deleted)";
    struct stat st;
    size_t size = strlen(object->path), mark_size = sizeof mark - 1;
    if (size < mark_size || strcmp(object->path + size - mark_size, mark)) return 0;
    return lstat(object->path, &st) || st.st_dev != object->st.st_dev || st.st_ino != object->st.st_ino;
}

int describe(int fd, struct object *object) {
    object->fd = fd;
    object->root = NULL;
    int failed = stat_inode(fd, "", &object->st);
    if (!failed) failed = read_real_path(fd, object->path);
    if (failed) return failed;
    /* What has no name any more is in no folder; a pipe or a socket never was. */
    if (object->st.st_nlink && object->path[0] == '/') object->root = find_root(object->path);
    if (!object->root || object->root->own_only || is_born(&object->st) || !is_replaced(object)) return 0;
    const char *kept = find_kept(&object->st);
    if (!kept) return -EACCES; /* it cannot be restored by a name that nobody knows */
    snprintf(object->path, sizeof object->path, "%s", kept);
    object->root = find_root(kept);
    return 0;
}

/* Something that exists. With AT_EMPTY_PATH in `flags` an empty path means the folder's descriptor itself. */
int resolve_object(const struct call *call, int folder, const char *path, int flags, struct object *object) {
    int fd;
    if (!*path && !(flags & AT_EMPTY_PATH)) return -ENOENT;
    int base = open_base(call, folder, &path);
    if (base < 0) return base;
    if (*path) {
        fd = open_below(base, path, flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0);
        close(base);
        if (fd < 0) return fd;
    } else fd = base;
    int failed = describe(fd, object);
    if (failed) close(fd);
    return failed;
}

int open_caller_fd(const struct call *call, int number, struct object *object) {
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/fd/%d", call->tid, number);
    int fd = open(name, O_PATH | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT ? -EBADF : -EACCES;
    int failed = describe(fd, object);
    if (failed) close(fd);
    return failed;
}

int check_root(const struct root *root) { return root->writable ? 0 : -EROFS; }

/* Ask whoever knows the rules whether a path may be changed, if there are rules or nobody reviews the change later. For
   a folder that moves, `second` is its new path, and everything in it counts. The answer is y, or n and the path. */
int check_policy(const char *first, const char *second, int is_folder) {
    static char question[4 * MAX_PATH + 8];
    static char reply[2 * MAX_PATH + 2];
    if (policy_fd < 0) return 0;
    int size = snprintf(question, sizeof question, "%c%s%c%s", is_folder ? 'd' : 'f', first, 0, second);
    if (size >= (int)sizeof question || send(policy_fd, question, (size_t)size, MSG_NOSIGNAL) != size) return -EACCES;
    ssize_t got = recv(policy_fd, reply, sizeof reply - 1, 0);
    if (got == 1 && *reply == 'y') return 0;
    reply[got > 0 ? got : 0] = 0;
    if (*reply) log_record(DENIED, NULL, reply + 1, "");
    return -EACCES;
}

/* Whether a root is there or below: it must stay where it is. */
int contains_root(const char *path) {
    for (int i = 0; i < root_count; i++)
        if (is_below(roots[i].path, path)) return 1;
    return 0;
}

/* Until some process changes its umask, all have ours. */
mode_t read_umask(const struct call *call) {
    static mode_t ours;
    static int known;
    char name[64], text[256];
    if (!known) {
        ours = umask(022);
        umask(ours);
        known = 1;
    }
    if (!umask_changed) return ours;
    snprintf(name, sizeof name, "/proc/%d/status", call->tid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[got > 0 ? got : 0] = 0;
    char *at = strstr(text, "\nUmask:");
    return at ? (mode_t)strtol(at + 7, NULL, 8) : 077;
}
