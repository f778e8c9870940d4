/* The undo log: what has to be known to restore the workspace, written before each change.

   The file is mapped, so a record costs no system call and outlives the broker. A record counts once its size is there,
   which is written last. An inode that the command created needs no records of its own: it disappears with its name.
   Metadata and content are saved once for each inode. */

#include "broker.h"
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#define STEP_BYTES (256UL << 10)
#define MAX_LOG_BYTES (1UL << 30)
#define MAX_XATTR_BYTES 65536
#define HAS_BIRTH 0x100 /* with the kind: the record ends with the time of birth, in nanoseconds */
#define OUTCOME_BYTES (2 * MAX_PATH) /* enough for CREATED, CANCEL and ENDED */

struct record {
    uint32_t size, kind;
    uint64_t device, inode;
    uint32_t mode, owner, group, xattr_size;
    int64_t accessed, modified;
    uint64_t length;
};

enum state { UNKNOWN = 0, BORN = 1, HAS_METADATA = 2, HAS_CONTENT = 4, COPY = 8 };
struct known {
    uint64_t device, inode, birth;
    unsigned state, used;
    const char *kept; /* its name in the store, if it has lost the one by which it may still be open */
    unsigned links; /* names that the command gave it */
};

/* The number of an inode that is gone is used again, by anybody; the times of birth differ. */
static enum births { BIRTH_OF_ALL, BIRTH_OF_CREATED, NO_BIRTH } births;

static int log_fd;
static char *log_start;
static size_t log_end, log_size;
static struct known *table;
static size_t table_size, table_used;
static unsigned long last_store_name;

void check_births(const char *root) {
    struct statfs found;
    enum births known = NO_BIRTH;
    if (!statfs(root, &found)) switch ((uint32_t)found.f_type) {
        case 0xEF53: case 0x58465342: case 0x9123683E: case 0x01021994: known = BIRTH_OF_ALL; break; /* ext4, xfs, btrfs, tmpfs */
        case 0x794C7630: known = BIRTH_OF_CREATED; /* overlayfs: an old file is born again when it is first changed */
    }
    if (births < known) births = known;
}

static uint64_t get_birth(const struct stat *st, int is_created) {
    if (births == NO_BIRTH || (births == BIRTH_OF_CREATED && !is_created)) return 0;
    return (uint64_t)st->st_ctim.tv_sec * 1000000000UL + (uint64_t)st->st_ctim.tv_nsec;
}

void open_log(const char *path) {
    log_fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (log_fd < 0 || flock(log_fd, LOCK_EX | LOCK_NB)) stop("cannot create the undo log ", path);
    log_start = mmap(NULL, MAX_LOG_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, log_fd, 0);
    if (log_start == MAP_FAILED) stop("cannot map the undo log ", path);
}

/* Blocks are allocated before they are used: a full disk must be an error, not a signal. */
static int reserve(size_t size) {
    if (log_end + size + sizeof(struct record) <= log_size) return 0;
    if (log_size + STEP_BYTES > MAX_LOG_BYTES) return -ENOSPC;
    int failed = posix_fallocate(log_fd, (off_t)log_size, STEP_BYTES);
    if (failed) return -failed;
    log_size += STEP_BYTES;
    return 0;
}

size_t log_position(void) { return log_end; }

static int append(enum kind kind, const struct stat *st, const char *first, const char *second, const char *xattrs,
                  size_t xattr_size) {
    size_t first_size = strlen(first) + 1, second_size = strlen(second) + 1;
    size_t size = (sizeof(struct record) + first_size + second_size + xattr_size + 7) & ~7UL;
    uint64_t birth = st ? get_birth(st, kind == CREATED) : 0;
    if (birth) size += sizeof birth;
    int is_outcome = kind == CREATED || kind == CANCEL || kind == ENDED;
    /* These are written after the change and must not fail: every other record leaves room for them. */
    int failed = reserve(is_outcome ? size : size + OUTCOME_BYTES);
    if (failed) return failed;
    struct record *record = (struct record *)(log_start + log_end);
    char *at = (char *)(record + 1);
    memcpy(at, first, first_size);
    memcpy(at + first_size, second, second_size);
    if (xattr_size) memcpy(at + first_size + second_size, xattrs, xattr_size);
    if (birth) memcpy(log_start + log_end + size - sizeof birth, &birth, sizeof birth);
    record->kind = birth ? kind | HAS_BIRTH : kind;
    record->xattr_size = (uint32_t)xattr_size;
    if (st) {
        record->device = st->st_dev, record->inode = st->st_ino, record->mode = st->st_mode;
        record->owner = st->st_uid, record->group = st->st_gid, record->length = (uint64_t)st->st_size;
        record->accessed = st->st_atim.tv_sec * 1000000000L + st->st_atim.tv_nsec;
        record->modified = st->st_mtim.tv_sec * 1000000000L + st->st_mtim.tv_nsec;
    }
    __atomic_store_n(&record->size, (uint32_t)size, __ATOMIC_RELEASE);
    log_end += size;
    return 0;
}

int log_record(enum kind kind, const struct stat *st, const char *first, const char *second) {
    return append(kind, st, first, second, "", 0);
}

void log_cancel(size_t from) {
    char offset[24];
    if (from == log_end) return;
    snprintf(offset, sizeof offset, "%zu", from);
    append(CANCEL, NULL, offset, "", "", 0);
}

/* --- what is known about inodes */

static struct known *find_known(const struct stat *st) {
    if (2 * table_used >= table_size) {
        struct known *old = table;
        size_t old_size = table_size;
        table_size = old_size ? 2 * old_size : 1024;
        table = calloc(table_size, sizeof *table);
        if (!table) stop("out of memory", "");
        table_used = 0;
        for (size_t i = 0; i < old_size; i++) {
            if (!old[i].used || (old[i].state == UNKNOWN && !old[i].kept && !old[i].links)) continue;
            struct stat key = {.st_dev = old[i].device, .st_ino = old[i].inode};
            *find_known(&key) = old[i];
        }
        free(old);
    }
    uint64_t hash = (st->st_ino ^ (uint64_t)st->st_dev << 40) * 0x9E3779B97F4A7C15ULL;
    for (size_t i = hash >> 20;; i++) {
        struct known *each = &table[i & (table_size - 1)];
        if (each->used && each->device == st->st_dev && each->inode == st->st_ino) {
            uint64_t birth = get_birth(st, each->state & BORN);
            if (each->birth && birth && each->birth != birth) each->state = UNKNOWN, each->birth = 0, each->links = 0;
            return each;
        }
        if (!each->used) {
            *each = (struct known){.device = st->st_dev, .inode = st->st_ino, .used = 1};
            table_used++;
            return each;
        }
    }
}

int is_born(const struct stat *st) { return find_known(st)->state & BORN; }
int is_copy(const struct stat *st) { return find_known(st)->state & COPY; } /* one of ours, which nobody may change */
static void set_state(const struct stat *st, unsigned state) {
    struct known *known = find_known(st);
    known->state = state;
    known->birth = get_birth(st, state & BORN);
}

unsigned count_links(const struct stat *st) { return find_known(st)->links; }
void count_link(const struct stat *st) { find_known(st)->links++; }
void mark_born(const struct stat *st) { set_state(st, BORN); }
void forget_inode(const struct stat *st) { set_state(st, UNKNOWN); }

void note_kept(const struct stat *st, const char *path) { find_known(st)->kept = strdup(path); }
const char *find_kept(const struct stat *st) { return find_known(st)->kept; }

/* --- saving */

int next_store_name(const struct root *root, char *name, char *path) {
    snprintf(name, 24, "%lu", ++last_store_name);
    return snprintf(path, 2 * MAX_PATH, "%s/%s", root->store_path, name);
}

/* Name, size and value of each attribute. */
static int read_xattrs(const struct object *object, char *data, size_t room) {
    char names[4096], path[64];
    if (S_ISLNK(object->st.st_mode)) return 0; /* they have none that a user may set */
    snprintf(path, sizeof path, "/proc/self/fd/%d", object->fd);
    ssize_t listed = listxattr(path, names, sizeof names);
    if (listed < 0) return errno == ENOTSUP ? 0 : -errno;
    size_t used = 0;
    for (char *name = names; name < names + listed; name += strlen(name) + 1) {
        size_t size = strlen(name) + 1;
        uint32_t length;
        if (used + size + sizeof length >= room) return -E2BIG;
        ssize_t got = getxattr(path, name, data + used + size + sizeof length, room - used - size - sizeof length);
        if (got < 0 && errno == ENODATA) continue;
        if (got < 0) return -errno;
        memcpy(data + used, name, size);
        length = (uint32_t)got;
        memcpy(data + used + size, &length, sizeof length);
        used += size + sizeof length + (size_t)got;
    }
    return (int)used;
}

static int save(const struct object *object, const char *copy, unsigned state) {
    static char xattrs[MAX_XATTR_BYTES];
    if (object->root && object->root->own_only) return 0;
    int size = read_xattrs(object, xattrs, sizeof xattrs);
    int failed = size < 0 ? size : append(SAVE, &object->st, object->path, copy, xattrs, (size_t)size);
    if (failed) {
        log_record(REFUSED, NULL, object->path, strerror(-failed));
        return -EACCES;
    }
    set_state(&object->st, find_known(&object->st)->state | state);
    return 0;
}

int save_metadata(const struct object *object) {
    if (is_copy(&object->st)) return -EACCES;
    return find_known(&object->st)->state ? 0 : save(object, "", HAS_METADATA);
}

int save_folder(const struct entry *entry) {
    struct object folder;
    int failed = describe(entry->dir, &folder);
    return failed ? failed : save_metadata(&folder);
}

int copy_content(int from, int to, int64_t size) {
    if (!ioctl(to, FICLONE, from)) return 0;
    if (ftruncate(to, size)) return -errno;
    for (off_t at = 0; at < size;) { /* holes stay holes */
        off_t start = lseek(from, at, SEEK_DATA);
        if (start < 0) return errno == ENXIO ? 0 : -errno;
        off_t end = lseek(from, start, SEEK_HOLE);
        if (end < 0) return -errno;
        if (lseek(to, start, SEEK_SET) < 0) return -errno;
        while (start < end) {
            ssize_t sent = sendfile(to, from, &start, (size_t)(end - start));
            if (sent < 0) return -errno;
            if (!sent) break; /* it has become shorter */
        }
        at = end;
    }
    return 0;
}

int save_content(const struct object *object) {
    unsigned state = find_known(&object->st)->state;
    char name[24], path[2 * MAX_PATH], self[64];
    if (state & COPY) return -EACCES;
    if (state & BORN || object->root->own_only) return 0;
    if (state & HAS_CONTENT)
        return object->st.st_nlink > 1 ? log_record(TOUCH, &object->st, object->path, "") : 0;
    struct stat copy;
    snprintf(self, sizeof self, "/proc/self/fd/%d", object->fd);
    int failed, from = open(self, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    next_store_name(object->root, name, path);
    int to = from < 0 ? -1 : openat(object->root->store, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (to < 0) failed = -errno;
    else if (fchmod(to, 0600) || stat_inode(to, "", &copy)) failed = -errno; /* our umask is that of whoever called last */
    else {
        set_state(&copy, COPY);
        failed = copy_content(from, to, object->st.st_size);
    }
    if (to >= 0) close(to);
    if (from >= 0) close(from);
    if (failed) {
        unlinkat(object->root->store, name, 0);
        log_record(REFUSED, NULL, object->path, strerror(-failed));
        return failed == -ENOSPC || failed == -EDQUOT ? failed : -EACCES;
    }
    return save(object, path, HAS_CONTENT | HAS_METADATA);
}
