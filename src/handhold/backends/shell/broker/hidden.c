/* What a rule hides: files and folders of the workspace that the command may neither read nor change, move or remove.

   Landlock lets the command read only what it can list when it starts: every folder and program that is, and holds,
   nothing hidden. Everything else in the workspace is opened by the broker, which knows hidden files by their inodes,
   under whatever name. A call that the broker lets continue, or does not know, is refused by Landlock.

   The kernel itself opens a program that is executed. One that the command created next to a hidden file is therefore
   moved to an inode that Landlock knew from the start. */

#include "broker.h"

#define SPARE_FILES 64 /* for each root with something hidden */

static struct hidden {
    const char *path;
    struct stat st; /* without an inode if nothing is there any more */
} *hidden;
static size_t hidden_count;

/* Inodes of the workspace that Landlock lets the command read, with everything below. */
static struct stat *readable;
static size_t readable_count;

static struct {
    const struct root *root;
    char name[24];
} spares[MAX_ROOTS * SPARE_FILES];
static int spare_count;

static void *grow(void *list, size_t count, size_t size) {
    list = realloc(list, (count + 1) * size);
    if (!list) stop("out of memory", "");
    return list;
}

void hide(const char *path) {
    hidden = grow(hidden, hidden_count, sizeof *hidden);
    struct hidden *each = &hidden[hidden_count++];
    *each = (struct hidden){.path = path};
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC); /* stays open: no other file gets the number of this inode */
    if (fd >= 0 && fstat(fd, &each->st)) stop("cannot hide ", path);
}

int is_hidden(const struct stat *st, const char *path) {
    for (size_t i = 0; i < hidden_count; i++)
        if (is_same(st, &hidden[i].st) || is_below(path, hidden[i].path)) return 1;
    return 0;
}

int is_in_hidden_folder(const char *path) {
    for (size_t i = 0; i < hidden_count; i++)
        if (is_below(path, hidden[i].path) && strcmp(path, hidden[i].path)) return 1;
    return 0;
}

/* A folder with something hidden inside must stay where it is. */
int holds_hidden(const char *path) {
    for (size_t i = 0; i < hidden_count; i++)
        if (is_below(hidden[i].path, path)) return 1;
    return 0;
}

/* --- programs */

static void note_readable(const struct stat *st) {
    readable = grow(readable, readable_count, sizeof *readable);
    readable[readable_count++] = *st;
}

static void add_spares(const struct root *root, struct launch *launch) {
    for (int i = 0; i < SPARE_FILES; i++) {
        char path[2 * MAX_PATH];
        struct stat st;
        next_store_name(root, spares[spare_count].name, path);
        int fd = openat(root->store, spares[spare_count].name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || fchmod(fd, 0600) || fstat(fd, &st)) stop("cannot create a file in ", root->store_path);
        close(fd);
        note_readable(&st);
        spares[spare_count++].root = root;
        launch->readable = grow(launch->readable, (size_t)launch->readable_count, sizeof *launch->readable);
        launch->readable[launch->readable_count++] = strdup(path);
    }
}

/* Before the command starts. */
void prepare_programs(struct launch *launch) {
    if (!hidden_count) return;
    for (int i = 0; i < launch->readable_count; i++) {
        struct stat st;
        if (find_root(launch->readable[i]) && !stat(launch->readable[i], &st)) note_readable(&st);
    }
    for (int i = 0; i < root_count; i++)
        if (roots[i].store >= 0 && holds_hidden(roots[i].path)) add_spares(&roots[i], launch);
}

static int has_rule(const struct stat *st) {
    for (size_t i = 0; i < readable_count; i++)
        if (is_same(st, &readable[i])) return 1;
    return 0;
}

/* Whether Landlock lets the command read an object: it, or a folder around it, was listed. */
static int is_readable(const struct object *object, int folder) {
    struct stat st, above;
    if (has_rule(&object->st)) return 1;
    int at = fcntl(folder, F_DUPFD_CLOEXEC, 3), found = 0;
    while (at >= 0 && !fstat(at, &st) && !(found = has_rule(&st))) {
        int next = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        int is_top = next < 0 || fstat(next, &above) || is_same(&st, &above);
        close(at);
        at = next;
        if (is_top) break;
    }
    if (at >= 0) close(at);
    return found;
}

/* Replace a program that the command created by a copy that the kernel may read for it. */
static void make_readable(const struct object *object) {
    struct entry entry;
    char self[64];
    int spare = spare_count - 1;
    while (spare >= 0 && spares[spare].root != object->root) spare--;
    if (spare < 0 || find_entry(object, &entry)) return;
    snprintf(self, sizeof self, "/proc/self/fd/%d", object->fd);
    int from = is_readable(object, entry.dir) ? -1 : open(self, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    /* Whoever has it open for writing would write to a file without a name. */
    int to = from < 0 || fcntl(from, F_SETLEASE, F_RDLCK) ? -1 : openat(object->root->store, spares[spare].name, O_WRONLY | O_CLOEXEC);
    int failed = to < 0 ? -EACCES : copy_file(object, from, to);
    if (to >= 0) close(to);
    size_t before = log_position();
    if (!failed) failed = log_record(CREATE, NULL, entry.path, "");
    if (!failed && (failed = exchange_exactly(&entry, spares[spare].name, &object->st))) log_cancel(before);
    if (!failed) {
        unlinkat(object->root->store, spares[spare].name, 0);
        if (object->st.st_nlink == 1) forget_inode(&object->st);
        spares[spare] = spares[--spare_count];
        end_create(&entry, 0);
    }
    if (from >= 0) close(from);
    close(entry.dir);
}

/* The kernel executes it, and Landlock decides. */
int start_program(const struct call *call, int folder, uint64_t address, int flags) {
    struct object object;
    char path[MAX_PATH];
    if (read_path(call, address, path)) return CONTINUE;
    if (resolve_object(call, folder, path, flags & (AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH), &object)) return CONTINUE;
    if (object.root && !object.root->own_only && S_ISREG(object.st.st_mode) && object.st.st_mode & 0111 && is_born(&object.st))
        make_readable(&object);
    close(object.fd);
    return CONTINUE;
}
