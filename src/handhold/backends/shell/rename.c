/* Renames a folder that an overlay will not let go, and keeps git from links that it would not trust.

   An overlay answers EXDEV when a folder of its lower layer shall get another name, as two file systems would. Some
   programs copy then; most give up. Preloaded into each program of a sandbox, this does the copying for them: beside
   the target, under a name of its own, with modes, times, attributes, links and holes. The copy gets the target's
   name in one step, and the original is removed.

   What cannot be copied is left as it was, and the program hears EXDEV as without us. */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NOREPLACE 1u
#define BUCKETS 1024
#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* A file with several names that was copied, and where: below the new folder. */
struct copied {
    struct copied *next;
    dev_t device;
    ino_t number;
    char way[];
};

struct move {
    int top; /* the new folder */
    struct copied *buckets[BUCKETS];
};

static int folder(int to, int from, struct move *move, const char *way);
static int removed(int parent, const char *name);

static int renamed(int from, const char *old, int to, const char *new, unsigned flags) {
    return (int)syscall(SYS_renameat2, from, old, to, new, flags);
}

static int is_dots(const char *name) {
    return !strcmp(name, ".") || !strcmp(name, "..");
}

/* Open what is ours whatever its mode, which is the same afterwards. */
static int opened(int parent, const char *name, int flags, const struct stat *found) {
    int fd = openat(parent, name, flags);
    if (fd < 0 && errno == EACCES && !fchmodat(parent, name, 0700, 0)) {
        fd = openat(parent, name, flags);
        if (fchmodat(parent, name, found->st_mode & 07777, 0) && fd >= 0) {
            close(fd);
            return -1;
        }
    }
    return fd;
}

/* --- one thing after another */

/* Whether it belongs to whom it should: a plain user cannot give anything away, and is not expected to. */
static int owned(int to, const char *name, const struct stat *found) {
    struct stat made;
    int flags = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH;
    return fstatat(to, name, &made, flags) ||
           ((made.st_uid != found->st_uid || made.st_gid != found->st_gid) &&
            fchownat(to, name, found->st_uid, found->st_gid, flags) && !geteuid()) ? -1 : 0;
}

static int dressed(int to, int from, const struct stat *found) {
    if (owned(to, "", found))
        return -1;
    ssize_t length = flistxattr(from, NULL, 0);
    if (length > 0) {
        char *names = malloc((size_t)length);
        if (!names)
            return -1;
        length = flistxattr(from, names, (size_t)length);
        for (char *name = names; length > 0 && name < names + length; name += strlen(name) + 1) {
            ssize_t size = fgetxattr(from, name, NULL, 0);
            char *value = size < 0 ? NULL : malloc((size_t)size + 1);
            int failed = !value || (size = fgetxattr(from, name, value, (size_t)size)) < 0 ||
                         fsetxattr(to, name, value, (size_t)size, 0);
            free(value);
            if (failed && !strncmp(name, "user.", 5)) { /* others are the system's to give */
                free(names);
                return -1;
            }
        }
        free(names);
    }
    struct timespec times[2] = {found->st_atim, found->st_mtim};
    return fchmod(to, found->st_mode & 07777) || futimens(to, times) ? -1 : 0;
}

static int poured(int to, int from, off_t size) {
    off_t at = 0;
    if (!ioctl(to, FICLONE, from)) /* the file system shares blocks between files */
        return 0;
    while (at < size) {
        at = lseek(from, at, SEEK_DATA);
        if (at < 0) {
            if (errno != ENXIO)
                return -1;
            break; /* nothing but a hole is left */
        }
        off_t end = lseek(from, at, SEEK_HOLE);
        if (end < 0 || lseek(to, at, SEEK_SET) < 0)
            return -1;
        while (at < end) {
            ssize_t sent = sendfile(to, from, &at, (size_t)(end - at));
            if (sent < 0 && errno != EINTR)
                return -1;
            if (!sent)
                break;
        }
    }
    return ftruncate(to, size);
}

/* 1: it is a second name of what was copied already; 0: it is not; -1: trouble. */
static int linked(struct move *move, int to, const char *name, const char *way, const struct stat *found) {
    if (found->st_nlink < 2)
        return 0;
    struct copied **bucket = &move->buckets[found->st_ino % BUCKETS];
    for (struct copied *each = *bucket; each; each = each->next)
        if (each->device == found->st_dev && each->number == found->st_ino)
            return linkat(move->top, each->way, to, name, 0) ? -1 : 1;
    struct copied *first = malloc(sizeof *first + strlen(way) + strlen(name) + 1);
    if (!first)
        return -1;
    first->device = found->st_dev;
    first->number = found->st_ino;
    strcat(strcpy(first->way, way), name);
    first->next = *bucket;
    *bucket = first;
    return 0;
}

static int file(int to, int from, const char *name, const struct stat *found) {
    int source = opened(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, found);
    if (source < 0)
        return -1;
    int made = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int failed = made < 0 || poured(made, source, found->st_size) || dressed(made, source, found);
    if (made >= 0)
        close(made);
    close(source);
    return failed ? -1 : 0;
}

static int link_to(int to, int from, const char *name, const struct stat *found) {
    char *target = malloc((size_t)found->st_size + 1);
    if (!target)
        return -1;
    ssize_t length = readlinkat(from, name, target, (size_t)found->st_size + 1);
    int failed = length < 0 || length > found->st_size;
    if (!failed) {
        target[length] = 0;
        failed = symlinkat(target, to, name) != 0;
    }
    free(target);
    return failed ? -1 : 0;
}

static int thing(int to, int from, const char *name, struct move *move, const char *way) {
    struct stat found;
    if (fstatat(from, name, &found, AT_SYMLINK_NOFOLLOW))
        return -1;
    if (S_ISDIR(found.st_mode)) {
        int closed = (found.st_mode & 0500) != 0500;
        if (mkdirat(to, name, 0700) || (closed && fchmodat(from, name, 0700, 0)))
            return -1;
        char *below = malloc(strlen(way) + strlen(name) + 2);
        int source = openat(from, name, FOLDER), made = openat(to, name, FOLDER);
        int failed = !below || source < 0 || made < 0;
        if (!failed) {
            strcat(strcat(strcpy(below, way), name), "/");
            failed = folder(made, source, move, below) || dressed(made, source, &found);
        }
        free(below);
        if (source >= 0)
            close(source);
        if (made >= 0)
            close(made);
        if (closed && fchmodat(from, name, found.st_mode & 07777, 0))
            failed = 1;
        return failed ? -1 : 0;
    }
    int known = linked(move, to, name, way, &found);
    if (known)
        return known < 0 ? -1 : 0;
    if (S_ISREG(found.st_mode))
        return file(to, from, name, &found);
    if (S_ISLNK(found.st_mode) ? link_to(to, from, name, &found) : mknodat(to, name, found.st_mode, found.st_rdev))
        return -1;
    if (owned(to, name, &found))
        return -1;
    if (!S_ISLNK(found.st_mode) && fchmodat(to, name, found.st_mode & 07777, 0))
        return -1;
    struct timespec times[2] = {found.st_atim, found.st_mtim};
    return utimensat(to, name, times, AT_SYMLINK_NOFOLLOW);
}

/* --- whole folders */

static DIR *listed(int fd) {
    int own = openat(fd, ".", FOLDER);
    DIR *names = own < 0 ? NULL : fdopendir(own);
    if (!names && own >= 0)
        close(own);
    return names;
}

static int folder(int to, int from, struct move *move, const char *way) {
    DIR *names = listed(from);
    if (!names)
        return -1;
    int failed = 0;
    struct dirent *entry;
    while (!failed && (errno = 0, entry = readdir(names)))
        failed = !is_dots(entry->d_name) && thing(to, from, entry->d_name, move, way);
    if (!failed && errno)
        failed = 1;
    int error = errno;
    closedir(names);
    errno = error;
    return failed ? -1 : 0;
}

static int emptied(int fd) {
    DIR *names = listed(fd);
    if (!names)
        return -1;
    int failed = 0;
    struct dirent *entry;
    while ((entry = readdir(names)))
        failed |= !is_dots(entry->d_name) && removed(fd, entry->d_name);
    closedir(names);
    return failed ? -1 : 0;
}

static int removed(int parent, const char *name) {
    if (!unlinkat(parent, name, 0))
        return 0;
    struct stat found;
    if (fstatat(parent, name, &found, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(found.st_mode))
        return -1;
    if ((found.st_mode & 0700) != 0700)
        fchmodat(parent, name, 0700, 0);
    int fd = openat(parent, name, FOLDER);
    if (fd < 0)
        return -1;
    emptied(fd);
    close(fd);
    return unlinkat(parent, name, AT_REMOVEDIR);
}

static int is_empty(int parent, const char *name) {
    int fd = openat(parent, name, FOLDER);
    DIR *names = fd < 0 ? NULL : fdopendir(fd);
    if (!names) {
        if (fd >= 0)
            close(fd);
        return 1; /* nothing there, or nothing that we may see: the last step will tell */
    }
    int empty = 1;
    struct dirent *entry;
    while (empty && (entry = readdir(names)))
        empty = is_dots(entry->d_name);
    closedir(names);
    return empty;
}

/* The length of a path up to its last name, and without slashes behind that. */
static size_t above(const char *path, size_t *end) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    *end = length;
    while (length && path[length - 1] != '/')
        length--;
    return length;
}

/* Two file systems are two to every program: only where there is one, and it refuses all the same, is it for us. */
static int is_one(int to, const char *new, const struct stat *found) {
    size_t end, up = above(new, &end);
    char *parent = up ? strndup(new, up) : strdup(".");
    struct stat at;
    int one = parent && !fstatat(to, parent, &at, 0) && at.st_dev == found->st_dev;
    free(parent);
    return one;
}

static int moved(int from, const char *old, int to, const char *new, unsigned flags, const struct stat *found) {
    static unsigned count;
    size_t end, up = above(new, &end);
    char *beside = malloc(up + 64), *plain = strndup(new, end);
    struct move *move = calloc(1, sizeof *move);
    int failed = -1, source = -1, closed = (found->st_mode & 0500) != 0500;
    if (!beside || !plain || !move)
        goto done;
    memcpy(beside, new, up);
    snprintf(beside + up, 64, ".renamed-%ld-%u", (long)getpid(), __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED));
    if (!is_empty(to, plain)) {
        errno = ENOTEMPTY;
        goto done;
    }
    if (closed && fchmodat(from, old, 0700, 0))
        goto done;
    source = openat(from, old, FOLDER);
    if (source >= 0 && !mkdirat(to, beside, 0700)) {
        move->top = openat(to, beside, FOLDER);
        failed = move->top < 0 || folder(move->top, source, move, "") || dressed(move->top, source, found) ||
                 renamed(to, beside, to, plain, flags);
        int error = errno;
        if (move->top >= 0)
            close(move->top);
        if (failed)
            removed(to, beside);
        errno = error;
    }
    if (!failed) {
        size_t last;
        above(old, &last);
        char *name = strndup(old, last);
        if (name)
            removed(from, name); /* what stays was not ours to remove; the copy counts all the same */
        free(name);
    } else if (closed) {
        int error = errno;
        fchmodat(from, old, found->st_mode & 07777, 0);
        errno = error;
    }
done:;
    int error = errno;
    if (source >= 0)
        close(source);
    for (size_t bucket = 0; move && bucket < BUCKETS; bucket++)
        for (struct copied *each = move->buckets[bucket], *next; each; each = next) {
            next = each->next;
            free(each);
        }
    free(move);
    free(beside);
    free(plain);
    errno = error;
    return failed ? -1 : 0;
}

/* --- what programs call */

int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    int before = errno;
    if (!renamed(from, old, to, new, flags))
        return 0;
    struct stat found;
    if (errno != EXDEV || (flags & ~NOREPLACE))
        return -1;
    if (fstatat(from, old, &found, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(found.st_mode) || !is_one(to, new, &found)) {
        errno = EXDEV;
        return -1;
    }
    if (!moved(from, old, to, new, flags, &found)) {
        errno = before;
        return 0;
    }
    if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR && errno != ENOSPC && errno != EDQUOT)
        errno = EXDEV;
    return -1;
}

int renameat(int from, const char *old, int to, const char *new) {
    return renameat2(from, old, to, new, 0);
}

int rename(const char *old, const char *new) {
    return renameat2(AT_FDCWD, old, AT_FDCWD, new, 0);
}

/* An overlay copies a file of its lower layer to link it, and the copy has another inode. `git clone` takes that for
   an attack and stops, though without hard links it would copy. So for git such a link cannot be made. */
int linkat(int from, const char *old, int to, const char *new, int flags) {
    struct stat source, made;
    int checked = !flags && !strcmp(program_invocation_short_name, "git") && !fstatat(from, old, &source, AT_SYMLINK_NOFOLLOW);
    if (syscall(SYS_linkat, from, old, to, new, flags))
        return -1;
    if (!checked || fstatat(to, new, &made, AT_SYMLINK_NOFOLLOW) || source.st_ino == made.st_ino)
        return 0;
    unlinkat(to, new, 0);
    errno = EXDEV;
    return -1;
}

int link(const char *old, const char *new) {
    return linkat(AT_FDCWD, old, AT_FDCWD, new, 0);
}

/* AddressSanitizer refuses to start unless its library is the first, which it cannot be in a program that we are
   preloaded into; and to look for leaks at the end, it traces the program, which our filter for system calls forbids.
   The sanitizers ask for these before they read ASAN_OPTIONS and LSAN_OPTIONS. */
const char *__asan_default_options(void) {
    return "verify_asan_link_order=0:detect_leaks=0";
}

const char *__lsan_default_options(void) {
    return "detect_leaks=0";
}
