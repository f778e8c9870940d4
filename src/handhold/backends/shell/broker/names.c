/* Calls that create, move or remove names. What was there before is never destroyed: it moves to the store. */

#include "broker.h"

static long rename_with_flags(int from, const char *name, int to, const char *new_name, unsigned flags) {
    return syscall(SYS_renameat2, from, name, to, new_name, flags);
}

static int lstat_entry(const struct entry *entry, struct stat *st) {
    return stat_inode(entry->dir, entry->name, st);
}

static int is_in_born_folder(const struct entry *entry) {
    struct stat st;
    return !stat_inode(entry->dir, "", &st) && is_born(&st);
}

/* In a temporary folder of the machine: only at its top, or in a folder that the session created. */
static int may_change_folder(const struct entry *entry) {
    struct stat st;
    const char *end = strrchr(entry->path, '/');
    if ((size_t)(end - entry->path) == strlen(entry->root->path)) return 1;
    return !stat_inode(entry->dir, "", &st) && is_ours(entry->dir, "", &st);
}

/* An entry that a call changes: CONTINUE outside the workspace, an error where it must not be changed. */
static int resolve_changed(const struct call *call, int folder, uint64_t address, struct entry *entry) {
    char path[MAX_PATH];
    int failed = read_path(call, address, path);
    if (!failed) failed = resolve_entry(call, folder, path, entry);
    if (failed) return failed == -ELOOP ? CONTINUE : failed;
    if (!entry->root) failed = CONTINUE;
    else failed = check_root(entry->root);
    if (!failed && entry->root->own_only && !may_change_folder(entry)) failed = -EACCES;
    if (!failed && !is_waiting(call)) failed = -EINTR; /* only now it is certain that the path is the caller's */
    if (failed) close(entry->dir);
    return failed;
}

/* A root, and what is or holds something hidden, stays where it is. */
static int check_movable(const struct entry *entry, const struct stat *st) {
    return contains_root(entry->path) || holds_hidden(entry->path) || is_hidden(st, entry->path) ? -EBUSY : 0;
}

/* Without a CREATED behind it, CREATE means that whatever is there is the command's: never write it for what exists. */
int begin_create(const struct entry *entry, int is_folder) {
    struct stat st;
    if (entry->root->own_only) return may_change_folder(entry) ? 0 : -EACCES;
    if (!lstat_entry(entry, &st)) return -EEXIST;
    int failed = check_policy(entry->path, "", is_folder);
    if (!failed && !is_in_born_folder(entry)) failed = save_folder(entry);
    return failed ? failed : log_record(CREATE, NULL, entry->path, "");
}

/* `name` in `dir`, or the descriptor `dir` itself, is what was created for an entry. */
void note_created(const struct entry *entry, int dir, const char *name) {
    struct stat st;
    if (stat_inode(dir, name, &st)) return; /* somebody else removed it */
    mark_born(&st);
    if (entry->root->own_only) register_ours(dir, name);
    else log_record(CREATED, &st, is_in_born_folder(entry) ? "" : entry->path, "");
}

int end_create(const struct entry *entry, int failed) {
    if (!failed) note_created(entry, entry->dir, entry->name);
    return failed;
}

int make_folder(const struct call *call, int folder, uint64_t path, mode_t mode) {
    struct entry entry;
    int failed = resolve_changed(call, folder, path, &entry);
    if (failed) return failed;
    size_t before = log_position();
    failed = begin_create(&entry, 1);
    if (!failed) {
        umask(read_umask(call));
        failed = end_create(&entry, mkdirat(entry.dir, entry.name, mode & 01777) ? -errno : 0);
        if (failed) log_cancel(before);
    }
    close(entry.dir);
    return failed;
}

int make_node(const struct call *call, int folder, uint64_t path, mode_t mode) {
    struct entry entry;
    mode_t type = mode & S_IFMT;
    int failed = resolve_changed(call, folder, path, &entry);
    if (failed) return failed;
    if (type && type != S_IFREG && type != S_IFIFO && type != S_IFSOCK) failed = -EPERM;
    if (entry.has_slash) failed = -ENOENT;
    size_t before = log_position();
    if (!failed) failed = begin_create(&entry, 0);
    if (!failed) {
        umask(read_umask(call));
        failed = end_create(&entry, mknodat(entry.dir, entry.name, mode & (S_IFMT | 01777), 0) ? -errno : 0);
        if (failed) log_cancel(before);
    }
    close(entry.dir);
    return failed;
}

int make_link(const struct call *call, uint64_t target, int folder, uint64_t path) {
    struct entry entry;
    char text[MAX_PATH];
    int failed = read_path(call, target, text);
    if (!failed) failed = resolve_changed(call, folder, path, &entry);
    if (failed) return failed;
    size_t before = log_position();
    failed = entry.has_slash ? -ENOENT : begin_create(&entry, 0);
    if (!failed) {
        failed = end_create(&entry, symlinkat(text, entry.dir, entry.name) ? -errno : 0);
        if (failed) log_cancel(before);
    }
    close(entry.dir);
    return failed;
}

/* A hard link across the boundary of the workspace would let the command write a file of the workspace elsewhere. */
int hard_link(const struct call *call, int old_folder, uint64_t old, int new_folder, uint64_t new, int flags) {
    struct entry to;
    struct object from;
    char path[MAX_PATH], self[64];
    if (flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)) return -EINVAL;
    int failed = read_path(call, old, path);
    if (!failed)
        failed = resolve_object(call, old_folder, path, (flags & AT_SYMLINK_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW) | (flags & AT_EMPTY_PATH), &from);
    if (failed) return failed == -ELOOP ? CONTINUE : failed;
    failed = resolve_changed(call, new_folder, new, &to);
    if (failed) {
        close(from.fd);
        return failed == CONTINUE && from.root ? -EXDEV : failed;
    }
    if (!from.root) failed = -EXDEV;
    else if (to.has_slash) failed = -ENOENT;
    else if (S_ISDIR(from.st.st_mode)) failed = -EPERM;
    else if (is_copy(&from.st) || is_hidden(&from.st, from.path)) failed = -EACCES;
    else failed = check_root(from.root);
    if (!failed && from.root != to.root && (from.root->own_only || to.root->own_only)) failed = -EXDEV;
    if (!failed && from.root->own_only && !is_ours(from.fd, "", &from.st)) failed = -EACCES;
    size_t before = log_position();
    if (!failed && !from.root->own_only) failed = check_policy(from.path, "", 0);
    if (!failed) failed = begin_create(&to, 0);
    if (!failed && !is_born(&from.st)) failed = log_record(LINK, &from.st, to.path, from.path);
    if (!failed) {
        snprintf(self, sizeof self, "/proc/self/fd/%d", from.fd);
        if (linkat(AT_FDCWD, self, to.dir, to.name, AT_SYMLINK_FOLLOW)) failed = -errno;
        else count_link(&from.st);
    }
    if (failed) log_cancel(before);
    close(to.dir);
    close(from.fd);
    return failed;
}

/* Keep an inode that a rename replaces: a second name in the store, or, where links are not allowed, its only one. */
static int keep_replaced(const struct entry *entry, const struct stat *st, char *name) {
    char path[2 * MAX_PATH];
    if (S_ISDIR(st->st_mode)) {
        struct object folder;
        int fd = openat(entry->dir, entry->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        int failed = fd < 0 ? -errno : describe(fd, &folder);
        if (!failed) failed = save_metadata(&folder);
        if (fd >= 0) close(fd);
        return failed ? failed : log_record(REMOVE, st, entry->path, "");
    }
    next_store_name(entry->root, name, path);
    int failed = log_record(KEEP, st, entry->path, path);
    if (failed) return failed;
    if (!linkat(entry->dir, entry->name, entry->root->store, name, 0)) return note_kept(st, path), 0;
    if (renameat(entry->dir, entry->name, entry->root->store, name)) return -errno;
    return log_record(MOVE, st, entry->path, path);
}

static int exchange(const struct entry *a, const struct entry *b, const struct stat *st) {
    struct stat other;
    size_t before = log_position();
    int failed = lstat_entry(b, &other);
    if (!failed) failed = log_record(EXCHANGE, st, a->path, b->path);
    if (!failed) failed = log_record(EXCHANGED, &other, b->path, a->path);
    if (!failed && rename_with_flags(a->dir, a->name, b->dir, b->name, RENAME_EXCHANGE)) failed = -errno;
    if (failed) log_cancel(before);
    return failed;
}

static int move(const struct entry *from, const struct entry *to, const struct stat *st, unsigned flags) {
    struct stat there, now;
    int replaces = !lstat_entry(to, &there);
    if (replaces && flags & RENAME_NOREPLACE) return -EEXIST;
    if (replaces && there.st_dev == st->st_dev && there.st_ino == st->st_ino) return 0; /* two names of one file */
    if (replaces && S_ISDIR(there.st_mode) != S_ISDIR(st->st_mode)) return S_ISDIR(st->st_mode) ? -ENOTDIR : -EISDIR;
    size_t before = log_position();
    char kept[24] = "";
    int failed = replaces && !is_born(&there) ? keep_replaced(to, &there, kept) : 0;
    int recorded = !is_born(st) || S_ISDIR(st->st_mode), appears = !recorded && !is_in_born_folder(to);
    if (!failed && recorded) failed = log_record(MOVE, st, from->path, to->path);
    else if (!failed && appears) failed = log_record(CREATE, NULL, to->path, "");
    if (!failed && rename_with_flags(from->dir, from->name, to->dir, to->name, flags)) failed = -errno;
    if (failed) {
        if (*kept && lstat_entry(to, &now)) renameat(to->root->store, kept, to->dir, to->name);
        else if (*kept) unlinkat(to->root->store, kept, 0);
        log_cancel(before);
        return failed;
    }
    if (appears) log_record(CREATED, st, to->path, "");
    if (replaces && (S_ISDIR(there.st_mode) || (is_born(&there) && there.st_nlink == 1))) forget_inode(&there);
    return 0;
}

static int move_own(const struct entry *from, const struct entry *to, const struct stat *st, unsigned flags) {
    struct stat there;
    if (!is_ours(from->dir, from->name, st)) return -EACCES;
    if (!lstat_entry(to, &there) && !is_ours(to->dir, to->name, &there)) return -EACCES;
    return rename_with_flags(from->dir, from->name, to->dir, to->name, flags) ? -errno : 0;
}

int rename_entry(const struct call *call, int old_folder, uint64_t old, int new_folder, uint64_t new, unsigned flags) {
    struct entry from, to;
    struct stat st, there;
    if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE)) return -EINVAL;
    int first = resolve_changed(call, old_folder, old, &from);
    if (first && first != CONTINUE) return first;
    int second = resolve_changed(call, new_folder, new, &to);
    if (first || second) {
        if (!first) close(from.dir);
        if (!second) close(to.dir);
        return first == second || second < 0 ? second : -EXDEV; /* across the boundary: as between file systems */
    }
    int failed = from.root == to.root || from.root->device == to.root->device ? 0 : -EXDEV;
    if (!failed) failed = lstat_entry(&from, &st);
    if (!failed && (from.has_slash || to.has_slash) && !S_ISDIR(st.st_mode)) failed = -ENOTDIR;
    if (!failed && (from.root->own_only || to.root->own_only)) {
        failed = from.root == to.root ? move_own(&from, &to, &st, flags) : -EXDEV;
        close(from.dir);
        close(to.dir);
        return failed;
    }
    if (!failed) failed = check_movable(&from, &st);
    if (!failed && !lstat_entry(&to, &there)) failed = check_movable(&to, &there);
    if (!failed) failed = check_policy(from.path, to.path, S_ISDIR(st.st_mode));
    if (!failed && flags & RENAME_EXCHANGE) failed = check_policy(to.path, from.path, 1);
    if (!failed && !is_in_born_folder(&from)) failed = save_folder(&from);
    if (!failed && !is_in_born_folder(&to)) failed = save_folder(&to);
    if (!failed) failed = flags & RENAME_EXCHANGE ? exchange(&from, &to, &st) : move(&from, &to, &st, flags);
    close(from.dir);
    close(to.dir);
    return failed;
}

static int remove_folder(const struct entry *entry, const struct stat *st) {
    struct object folder;
    size_t before = log_position();
    int fd = openat(entry->dir, entry->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int failed = fd < 0 ? -errno : describe(fd, &folder);
    if (!failed && !is_born(st)) {
        failed = save_metadata(&folder);
        if (!failed) failed = log_record(REMOVE, st, entry->path, "");
    }
    if (!failed && unlinkat(entry->dir, entry->name, AT_REMOVEDIR)) {
        failed = -errno;
        log_cancel(before);
    }
    if (fd >= 0) close(fd);
    if (!failed) forget_inode(st);
    return failed;
}

static int remove_file(const struct entry *entry, const struct stat *st) {
    char name[24], path[2 * MAX_PATH];
    if (is_born(st)) {
        if (unlinkat(entry->dir, entry->name, 0)) return -errno;
        if (st->st_nlink == 1) forget_inode(st);
        return 0;
    }
    size_t before = log_position();
    next_store_name(entry->root, name, path);
    int failed = log_record(MOVE, st, entry->path, path);
    if (!failed && renameat(entry->dir, entry->name, entry->root->store, name)) {
        failed = -errno;
        log_cancel(before);
    }
    return failed;
}

int remove_entry(const struct call *call, int folder, uint64_t address, int is_folder) {
    struct entry entry;
    struct stat st;
    int failed = resolve_changed(call, folder, address, &entry);
    if (failed) return failed;
    failed = lstat_entry(&entry, &st);
    if (!failed && (is_folder || entry.has_slash) && !S_ISDIR(st.st_mode)) failed = -ENOTDIR;
    if (!failed && !is_folder && S_ISDIR(st.st_mode)) failed = -EISDIR;
    if (!failed) failed = check_movable(&entry, &st);
    if (!failed && entry.root->own_only && !is_ours(entry.dir, entry.name, &st)) failed = -EACCES;
    if (!failed && !entry.root->own_only) failed = check_policy(entry.path, "", is_folder);
    if (!failed && !is_in_born_folder(&entry)) failed = save_folder(&entry);
    if (!failed) failed = is_folder ? remove_folder(&entry, &st) : remove_file(&entry, &st);
    close(entry.dir);
    return failed;
}
