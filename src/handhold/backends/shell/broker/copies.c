/* Replace a file by a copy of its own, under one name.

   A file may have names that nobody has judged: hard links that were there before the command, in the workspace or
   outside. What the command writes must not arrive there. So the name by which it opens such a file gets a new inode,
   as on an overlay, and the other names keep the old one. Names that the command itself made do not count: making a
   link is judged under both names. */

#include "broker.h"
#include <sys/xattr.h>

#define MAX_XATTR_BYTES 65536

int is_same(const struct stat *a, const struct stat *b) { return a->st_ino && a->st_ino == b->st_ino && a->st_dev == b->st_dev; }

static int copy_attributes(int from, int to) {
    static char names[MAX_XATTR_BYTES], value[MAX_XATTR_BYTES];
    ssize_t listed = flistxattr(from, names, sizeof names);
    for (char *name = names; listed > 0 && name < names + listed; name += strlen(name) + 1) {
        ssize_t size = fgetxattr(from, name, value, sizeof value);
        int is_system = !strncmp(name, "security.", 9) || !strncmp(name, "trusted.", 8);
        if (!is_system && (size < 0 || fsetxattr(to, name, value, (size_t)size, 0))) return -errno;
    }
    return 0;
}

/* Content, attributes, owner, mode and times. */
int copy_file(const struct object *object, int from, int to) {
    const struct timespec times[] = {object->st.st_atim, object->st.st_mtim};
    int failed = copy_content(from, to, object->st.st_size);
    if (!failed) failed = copy_attributes(from, to);
    if (!failed && fchown(to, object->st.st_uid, object->st.st_gid)) failed = -errno;
    if (!failed && fchmod(to, object->st.st_mode & 07777)) failed = -errno;
    if (!failed && futimens(to, times)) failed = -errno;
    return failed;
}

/* The entry by whose name an object was opened. The caller closes its folder. */
int find_entry(const struct object *object, struct entry *entry) {
    const char *end = strrchr(object->path, '/');
    *entry = (struct entry){.root = object->root};
    if (strlen(end + 1) >= sizeof entry->name) return -ENAMETOOLONG;
    memcpy(entry->path, object->path, (size_t)(end - object->path));
    memcpy(entry->name, end + 1, strlen(end));
    entry->dir = open_real_folder(entry->path);
    memcpy(entry->path, object->path, sizeof entry->path);
    return entry->dir < 0 ? entry->dir : 0;
}

/* Exchange a file of the store with an entry that still is this inode: another job may change the folder too. */
int exchange_exactly(const struct entry *entry, const char *name, const struct stat *expected) {
    struct stat st;
    int store = entry->root->store;
    if (syscall(SYS_renameat2, store, name, entry->dir, entry->name, RENAME_EXCHANGE)) return -errno;
    if (!fstatat(store, name, &st, AT_SYMLINK_NOFOLLOW) && is_same(&st, expected)) return 0;
    return syscall(SYS_renameat2, store, name, entry->dir, entry->name, RENAME_EXCHANGE) ? -errno : -EACCES;
}

static int separate_entry(const struct object *object, const struct entry *entry, int from, int to, const char *name, const char *path) {
    struct stat copy, folder;
    char self[64];
    size_t before = log_position();
    int failed = save_folder(entry);
    if (!failed) failed = copy_file(object, from, to);
    if (!failed) failed = stat_inode(to, "", &copy);
    if (!failed) failed = log_record(CREATED, &copy, path, "");
    if (!failed) failed = log_record(EXCHANGE, &object->st, object->path, path);
    if (!failed) failed = log_record(EXCHANGED, &copy, path, object->path);
    if (!failed && fstat(entry->dir, &folder)) failed = -errno;
    if (!failed) failed = exchange_exactly(entry, name, &object->st);
    if (failed) return log_cancel(before), failed;
    mark_born(&copy);
    /* Writing to a file does not change the time of its folder. */
    snprintf(self, sizeof self, "/proc/self/fd/%d", entry->dir);
    const struct timespec times[] = {folder.st_atim, folder.st_mtim};
    utimensat(AT_FDCWD, self, times, 0);
    return 0;
}

/* Before a file is changed. If it has names that the command did not give it, `object` becomes a copy under the name by
   which it was opened: returns 1. */
int separate_names(struct object *object) {
    struct entry entry;
    char name[24], path[2 * MAX_PATH], self[64];
    if (!object->root || object->root->own_only || !S_ISREG(object->st.st_mode) || is_born(&object->st)) return 0;
    if (object->st.st_nlink <= 1 + count_links(&object->st)) return 0;
    if (is_below(object->path, object->root->store_path)) return -EACCES; /* by this name the command has lost it */
    int failed = find_entry(object, &entry);
    if (failed) return failed;
    snprintf(self, sizeof self, "/proc/self/fd/%d", object->fd);
    int from = open(self, O_RDONLY | O_NONBLOCK | O_CLOEXEC), to = -1;
    next_store_name(object->root, name, path);
    if (from >= 0) to = openat(object->root->store, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    failed = to < 0 ? -errno : separate_entry(object, &entry, from, to, name, path);
    if (from >= 0) close(from);
    if (to >= 0) close(to);
    if (!failed) {
        struct object copy;
        int fd = openat(entry.dir, entry.name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        failed = fd < 0 ? -errno : describe(fd, &copy);
        if (!failed && !is_born(&copy.st)) failed = -EACCES; /* somebody else replaced it just now */
        if (!failed) {
            close(object->fd);
            *object = copy;
        } else if (fd >= 0) close(fd);
    } else if (to >= 0) unlinkat(object->root->store, name, 0);
    close(entry.dir);
    if (!failed) return 1;
    log_record(REFUSED, NULL, object->path, strerror(-failed));
    return failed == -ENOSPC || failed == -EDQUOT ? failed : -EACCES;
}
