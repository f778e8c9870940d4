/* Modes, owners, times and extended attributes. Landlock does not cover them, and they can be changed through a
   descriptor that was opened for reading, so the broker never lets one of these calls continue. */

#include "broker.h"
#include <sys/time.h>
#include <sys/xattr.h>

#define MAX_VALUE_BYTES 65536

enum way { BY_PATH, BY_LINK, BY_DESCRIPTOR, BY_FOLDER, BY_FOLDER_OR_DESCRIPTOR };

static int open_target(const struct call *call, enum way way, int flags, struct object *object) {
    char path[MAX_PATH] = "";
    const uint64_t *args = call->args;
    if (way == BY_DESCRIPTOR) return open_caller_fd(call, (int)args[0], object);
    int folder = way >= BY_FOLDER ? (int)args[0] : AT_FDCWD;
    uint64_t address = args[way >= BY_FOLDER];
    if (!address && way == BY_FOLDER_OR_DESCRIPTOR) return open_caller_fd(call, folder, object);
    int failed = read_path(call, address, path);
    if (failed) return failed;
    if (way == BY_LINK) flags |= AT_SYMLINK_NOFOLLOW;
    failed = resolve_object(call, folder, path, flags & (AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH), object);
    return failed;
}

/* Save what will change. Outside the workspace only what the command may write anyway is changed, or what has no name. */
static int prepare(const struct call *call, struct object *object) {
    if (!is_waiting(call)) return -EINTR;
    if (object->root) {
        int failed = is_hidden(&object->st, object->path) ? -EACCES : check_root(object->root);
        if (!failed && object->root->own_only) return is_ours(object->fd, "", &object->st) ? 0 : -EACCES;
        if (!failed) failed = check_policy(object->path, "", S_ISDIR(object->st.st_mode));
        if (!failed) failed = separate_names(object);
        return failed < 0 ? failed : save_metadata(object);
    }
    if (object->path[0] == '/' && object->st.st_nlink && !is_writable_place(object->path)) return -EROFS;
    return 0;
}

static int change_mode(const struct object *object, mode_t mode) {
    char self[64];
    if (S_ISLNK(object->st.st_mode)) return -EOPNOTSUPP;
    snprintf(self, sizeof self, "/proc/self/fd/%d", object->fd);
    return chmod(self, mode & 07777) ? -errno : 0;
}

static int change_owner(const struct object *object, uid_t owner, gid_t group) {
    return fchownat(object->fd, "", owner, group, AT_EMPTY_PATH) ? -errno : 0;
}

/* `unit` is that of the second number: 1 for nanoseconds, 1000 for microseconds; 0: whole seconds only. */
static int change_times(const struct call *call, const struct object *object, uint64_t address, int unit) {
    int64_t given[4];
    struct timespec times[2];
    char self[64];
    if (address) {
        int size = unit ? 32 : 16;
        int got = read_memory(call, address, given, (size_t)size);
        if (got != size) return got < 0 ? got : -EFAULT;
        for (int i = 0; i < 2; i++) {
            if (unit == 1000 && (given[2 * i + 1] < 0 || given[2 * i + 1] >= 1000000)) return -EINVAL;
            times[i] = unit ? (struct timespec){given[2 * i], given[2 * i + 1] * unit} : (struct timespec){given[i], 0};
        }
    }
    if (!is_waiting(call)) return -EINTR;
    if (S_ISLNK(object->st.st_mode))
        return syscall(SYS_utimensat, object->fd, "", address ? times : NULL, AT_EMPTY_PATH) ? -errno : 0;
    snprintf(self, sizeof self, "/proc/self/fd/%d", object->fd);
    return utimensat(AT_FDCWD, self, address ? times : NULL, 0) ? -errno : 0;
}

static int change_xattr(const struct call *call, const struct object *object, int removes) {
    static char value[MAX_VALUE_BYTES];
    char name[MAX_PATH], self[64];
    const uint64_t *args = call->args;
    int failed = read_path(call, args[1], name);
    if (failed) return failed;
    if (!removes && args[3] > sizeof value) return -E2BIG;
    if (!removes && args[3]) {
        int got = read_memory(call, args[2], value, args[3]);
        if (got != (int)args[3]) return got < 0 ? got : -EFAULT;
    }
    if (!is_waiting(call)) return -EINTR;
    if (S_ISLNK(object->st.st_mode)) return -EPERM;
    snprintf(self, sizeof self, "/proc/self/fd/%d", object->fd);
    if (removes) return removexattr(self, name) ? -errno : 0;
    return setxattr(self, name, value, args[3], (int)args[4]) ? -errno : 0;
}


int handle_metadata(const struct call *call, int number) {
    const uint64_t *args = call->args;
    struct object object;
    enum way way = BY_FOLDER;
    int flags = 0;
    switch (number) {
#ifdef SYS_chmod
    case SYS_chmod: case SYS_chown: case SYS_utime: case SYS_utimes:
#endif
    case SYS_setxattr: case SYS_removexattr: way = BY_PATH; break;
#ifdef SYS_lchown
    case SYS_lchown:
#endif
    case SYS_lsetxattr: case SYS_lremovexattr: way = BY_LINK; break;
    case SYS_fchmod: case SYS_fchown: case SYS_fsetxattr: case SYS_fremovexattr: way = BY_DESCRIPTOR; break;
    case SYS_fchownat: flags = (int)args[4]; break;
    case SYS_utimensat: way = BY_FOLDER_OR_DESCRIPTOR, flags = (int)args[3]; break;
    case 452: flags = (int)args[3]; break; /* fchmodat2 */
#ifdef SYS_futimesat
    case SYS_futimesat: way = BY_FOLDER_OR_DESCRIPTOR; break;
#endif
    case SYS_fchmodat: break;
    default: return -ENOSYS; /* nothing else is understood */
    }
    if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) return -EINVAL;
    int failed = open_target(call, way, flags, &object);
    if (failed) return failed;
    failed = prepare(call, &object);
    if (!failed) switch (number) {
#ifdef SYS_chmod
        case SYS_chmod:
#endif
        case SYS_fchmod: failed = change_mode(&object, (mode_t)args[1]); break;
        case SYS_fchmodat: case 452: failed = change_mode(&object, (mode_t)args[2]); break;
#ifdef SYS_chown
        case SYS_chown: case SYS_lchown:
#endif
        case SYS_fchown: failed = change_owner(&object, (uid_t)args[1], (gid_t)args[2]); break;
        case SYS_fchownat: failed = change_owner(&object, (uid_t)args[2], (gid_t)args[3]); break;
#ifdef SYS_utime
        case SYS_utime: failed = change_times(call, &object, args[1], 0); break;
        case SYS_utimes: failed = change_times(call, &object, args[1], 1000); break;
        case SYS_futimesat: failed = change_times(call, &object, args[2], 1000); break;
#endif
        case SYS_utimensat: failed = change_times(call, &object, args[2], 1); break;
        case SYS_setxattr: case SYS_lsetxattr: case SYS_fsetxattr: failed = change_xattr(call, &object, 0); break;
        default: failed = change_xattr(call, &object, 1);
    }
    close(object.fd);
    return failed;
}
