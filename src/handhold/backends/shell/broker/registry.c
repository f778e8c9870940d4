/* What the commands of a session share, in a file that only brokers write: the sockets that they listen on, and what they
   created in the temporary folders of the machine. */

#include "broker.h"
#include <sys/file.h>

#define KEYS_AT_ONCE 512
#define MULTIPLIER 0x9E3779B97F4A7C15ULL

static int registry = -1;

void open_registry(const char *path) {
    registry = open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (registry < 0) stop("cannot open the session's list ", path);
}

/* Between the answer of the policy and the change, no other command of the session may move a folder. */
void lock_session(int locked) {
    while (registry >= 0 && flock(registry, locked ? LOCK_EX : LOCK_UN) && errno == EINTR) {}
}

void register_key(uint64_t key) {
    if (registry >= 0 && write(registry, &key, sizeof key) < 0) return; /* then only this command knows it */
}

int is_registered(uint64_t key) {
    uint64_t keys[KEYS_AT_ONCE];
    ssize_t got;
    for (off_t at = 0; registry >= 0 && (got = pread(registry, keys, sizeof keys, at)) > 0; at += got)
        for (size_t i = 0; i < (size_t)got / sizeof *keys; i++)
            if (keys[i] == key) return 1;
    return 0;
}

/* A key for an inode, 0 if there is none. The number of a removed inode is used again, so the time of its birth belongs
   to the key. */
uint64_t identify(int dir, const char *name) {
    struct statx found;
    if (statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &found) || !(found.stx_mask & STATX_BTIME)) return 0;
    uint64_t key = found.stx_ino * MULTIPLIER ^ ((uint64_t)found.stx_dev_major << 32 | found.stx_dev_minor);
    key = (key * MULTIPLIER) ^ ((uint64_t)found.stx_btime.tv_sec * 1000000000ULL + found.stx_btime.tv_nsec);
    return (key & ~(3ULL << 62)) | 1ULL << 62;
}

void register_ours(int dir, const char *name) {
    uint64_t key = identify(dir, name);
    if (key) register_key(key);
}

/* Whether the session created an inode. */
int is_ours(int dir, const char *name, const struct stat *st) {
    if (is_born(st)) return 1;
    uint64_t key = identify(dir, name);
    if (!key || !is_registered(key)) return 0;
    mark_born(st);
    return 1;
}
