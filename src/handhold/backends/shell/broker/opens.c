/* Opening: the broker opens the file and hands the descriptor over. Reading comes here only if something is hidden. */

#include "broker.h"
#include <signal.h>
#include <sys/prctl.h>

#define PASSED_FLAGS (O_ACCMODE | O_APPEND | O_SYNC | O_DSYNC | O_DIRECT | O_NOATIME | O_LARGEFILE | O_ASYNC | O_NOCTTY)
#define MAX_DANGLING_LINKS 8

static int is_read(int flags) { return (flags & O_ACCMODE) == O_RDONLY && !(flags & (O_TRUNC | O_CREAT)); }

/* Give a file without the O_NONBLOCK that kept a lease from stopping the broker. `truncated` is the same file, or -1: the
   caller must have room for a descriptor before its content is gone. Closes both. */
static int give_file(const struct call *call, int fd, int flags, int truncated) {
    if (!(flags & O_NONBLOCK)) fcntl(fd, F_SETFL, flags & PASSED_FLAGS);
    if (is_read(flags)) return give_readable(call, fd, flags & O_CLOEXEC);
    int given = add_descriptor(call, fd, flags & O_CLOEXEC);
    int failed = given < 0 ? given : truncated >= 0 && ftruncate(truncated, 0) ? -errno : 0;
    close(fd);
    if (truncated >= 0 && truncated != fd) close(truncated);
    if (failed) return failed;
    answer(call, given, 0, 0);
    return ANSWERED;
}

static int open_object(const struct object *object, int flags) {
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", object->fd);
    int fd = open(self, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The caller's permission is checked by opening before anything is saved or truncated. */
static int open_regular(const struct call *call, struct object *object, int flags) {
    int reads_only = (flags & O_ACCMODE) == O_RDONLY, truncates = flags & O_TRUNC;
    int given = (flags & PASSED_FLAGS) | O_NONBLOCK;
    if (!reads_only || truncates) {
        int failed = check_root(object->root);
        if (!failed && !object->root->own_only) failed = check_policy(object->path, "", 0);
        if (failed) return failed;
    }
    int fd = open_object(object, given);
    if (fd < 0) return fd;
    int separated = reads_only && !truncates ? 0 : separate_names(object);
    if (separated) {
        close(fd);
        fd = separated < 0 ? separated : open_object(object, given);
        if (fd < 0) return fd;
    }
    int truncated = !truncates ? -1 : reads_only ? open_object(object, O_WRONLY | O_NONBLOCK) : fd;
    int failed = truncates && truncated < 0 ? truncated : 0;
    if (!failed && (!reads_only || truncates)) failed = save_content(object);
    if (!failed) return give_file(call, fd, flags, truncated);
    close(fd);
    if (truncated >= 0 && truncated != fd) close(truncated);
    return failed;
}

/* It waits for the other side, so another process does. */
static int open_pipe(const struct call *call, const struct object *object, int flags) {
    int failed = is_read(flags) ? 0 : check_root(object->root);
    if (!failed && !is_read(flags)) failed = save_metadata(object); /* writing changes its time */
    if (failed) return failed;
    int given = flags & (PASSED_FLAGS | O_NONBLOCK);
    if (flags & O_NONBLOCK || (flags & O_ACCMODE) == O_RDWR) {
        int fd = open_object(object, given);
        return fd < 0 ? fd : give_descriptor(call, fd, flags & O_CLOEXEC);
    }
    pid_t child = fork();
    if (child < 0) return -errno;
    if (child) return ANSWERED;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close_sockets(-1);
    int fd = open_object(object, given);
    if (fd < 0) answer(call, 0, fd, 0);
    else if ((failed = give_descriptor(call, fd, flags & O_CLOEXEC)) < 0) answer(call, 0, failed, 0);
    _exit(0);
}

/* Landlock does not let the command read a new file next to a hidden one, so the broker opens it. What Landlock decides
   alone continues: folders and devices, and files of others in a temporary folder of the machine. */
static int read_existing(const struct call *call, struct object *object, int flags) {
    if (is_hidden(&object->st, object->path)) return -EACCES;
    if (object->root->own_only && !is_ours(object->fd, "", &object->st)) return CONTINUE;
    if (flags & O_DIRECTORY && !S_ISDIR(object->st.st_mode)) return -ENOTDIR;
    switch (object->st.st_mode & S_IFMT) {
    case S_IFREG: return open_regular(call, object, flags);
    case S_IFIFO: return open_pipe(call, object, flags);
    case S_IFLNK: return -ELOOP;
    default: return CONTINUE;
    }
}

static int open_existing(const struct call *call, struct object *object, int flags) {
    if (!object->root) return open_terminal(call, object, flags);
    if (is_read(flags)) return read_existing(call, object, flags);
    if (!is_waiting(call)) return -EINTR;
    int writes = (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
    if (object->root->own_only && !is_ours(object->fd, "", &object->st))
        return writes ? -EACCES : CONTINUE; /* Landlock knows what is hidden there */
    if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) return -EEXIST;
    if (is_hidden(&object->st, object->path)) return -EACCES;
    if (flags & O_DIRECTORY && !S_ISDIR(object->st.st_mode)) return -ENOTDIR;
    switch (object->st.st_mode & S_IFMT) {
    case S_IFREG: return open_regular(call, object, flags);
    case S_IFIFO: return open_pipe(call, object, flags);
    case S_IFDIR: return -EISDIR;
    case S_IFLNK: return -ELOOP;
    case S_IFSOCK: return -ENXIO;
    default: return -EACCES;
    }
}

static void remove_created(const struct entry *entry, int fd) {
    struct stat st, now;
    if (stat_inode(fd, "", &st) || stat_inode(entry->dir, entry->name, &now)) return;
    if (st.st_dev == now.st_dev && st.st_ino == now.st_ino && !unlinkat(entry->dir, entry->name, 0)) forget_inode(&st);
}

/* Returns -EEXIST if something is there by now, also a link that leads nowhere. */
static int create_file(const struct call *call, const struct entry *entry, int flags, mode_t mode) {
    if (entry->has_slash) return -EISDIR;
    if (flags & O_DIRECTORY) return -EINVAL;
    int failed = check_root(entry->root);
    if (failed) return failed;
    if (!is_waiting(call)) return -EINTR;
    size_t before = log_position();
    failed = begin_create(entry, 0);
    if (failed) return failed;
    umask(read_umask(call));
    int given = (flags & (PASSED_FLAGS | O_NONBLOCK)) | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(entry->dir, entry->name, given, mode & 01777);
    if (fd < 0) {
        failed = -errno;
        log_cancel(before);
        return failed;
    }
    note_created(entry, fd, ""); /* by its name it may be another by now */
    int number = add_descriptor(call, fd, flags & O_CLOEXEC);
    if (number < 0) remove_created(entry, fd); /* the caller has no room for a descriptor: nothing happens */
    close(fd);
    if (number < 0) return number;
    answer(call, number, 0, 0);
    return ANSWERED;
}

int open_file(const struct call *call, int folder, uint64_t address, int flags, mode_t mode) {
    struct object object;
    struct entry entry;
    char path[MAX_PATH], target[MAX_PATH];
    if (flags & O_PATH) return CONTINUE; /* nothing can be changed through it */
    int failed = read_path(call, address, path);
    if (failed) return is_read(flags) ? CONTINUE : failed;
    int is_literal = flags & O_NOFOLLOW || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    for (int links = 0; links < MAX_DANGLING_LINKS; links++) {
        failed = resolve_object(call, folder, path, is_literal ? AT_SYMLINK_NOFOLLOW : 0, &object);
        if (!failed) {
            if (is_read(flags) && !object.st.st_nlink) object.root = find_root(object.path); /* open, without a name */
            if ((flags & O_TMPFILE) == O_TMPFILE) failed = object.root ? -EOPNOTSUPP : CONTINUE;
            else failed = open_existing(call, &object, flags);
            close(object.fd);
            return failed;
        }
        if (is_read(flags)) return CONTINUE; /* the kernel says what is wrong */
        if (failed != -ENOENT || !(flags & O_CREAT)) return failed == -ELOOP ? CONTINUE : failed;
        failed = resolve_entry(call, folder, path, &entry);
        if (failed) return failed == -ELOOP ? CONTINUE : failed;
        failed = entry.root ? create_file(call, &entry, flags, mode) : CONTINUE;
        ssize_t size = -1;
        if (failed == -EEXIST && !(flags & (O_EXCL | O_NOFOLLOW)))
            size = readlinkat(entry.dir, entry.name, target, sizeof target - 1);
        close(entry.dir);
        if (failed != -EEXIST || flags & O_EXCL) return failed;
        if (size < 0) continue; /* somebody else created it just now */
        target[size] = 0;
        if (*target == '/') memcpy(path, target, (size_t)size + 1);
        else {
            *strrchr(entry.path, '/') = 0;
            if (snprintf(path, sizeof path, "%s/%s", entry.path, target) >= (int)sizeof path) return -ENAMETOOLONG;
        }
    }
    return -ELOOP;
}

int truncate_file(const struct call *call, uint64_t address, int64_t size) {
    struct object object;
    char path[MAX_PATH];
    int failed = read_path(call, address, path);
    if (!failed) failed = resolve_object(call, AT_FDCWD, path, 0, &object);
    if (failed) return failed == -ELOOP ? CONTINUE : failed;
    if (!object.root) failed = CONTINUE;
    else if (!is_waiting(call)) failed = -EINTR;
    else if (!S_ISREG(object.st.st_mode)) failed = S_ISDIR(object.st.st_mode) ? -EISDIR : -EINVAL;
    else failed = is_hidden(&object.st, object.path) ? -EACCES : check_root(object.root);
    if (!failed && object.root->own_only) failed = is_ours(object.fd, "", &object.st) ? 0 : -EACCES;
    else if (!failed) failed = check_policy(object.path, "", 0);
    if (!failed) {
        int fd = open_object(&object, O_WRONLY | O_NONBLOCK);
        int separated = fd < 0 ? 0 : separate_names(&object);
        if (separated) {
            close(fd);
            fd = separated < 0 ? separated : open_object(&object, O_WRONLY | O_NONBLOCK);
        }
        failed = fd < 0 ? fd : save_content(&object);
        if (!failed && ftruncate(fd, size)) failed = -errno;
        if (fd >= 0) close(fd);
    }
    close(object.fd);
    return failed;
}
