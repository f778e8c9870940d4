/* What has no folder and belongs to whoever made it: other processes, System V IPC, and terminals. Without namespaces
   the command would share all three with the machine. It may act on its own processes, on the memory, queues and
   semaphores that it created itself, and on the terminals whose other side one of its processes holds. */

#include "broker.h"
#include <dirent.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/sysmacros.h>

#define TERMINAL_MAJOR 136 /* of all in /dev/pts */
#define FORMAT_FLAG 0x100 /* some C libraries add it to a command */

enum ipc { MEMORY, SEMAPHORES, QUEUE };

static struct { enum ipc kind; int id; } *made;
static size_t made_count;

/* --- processes */

/* By the number of a process or a thread; 0 is the caller. Other processes of the machine cannot be meant. */
int act_on_process(const struct call *call, pid_t pid) { return !pid || pid == call->tid || is_descendant(pid) ? CONTINUE : -EPERM; }

/* `kind` is 0 for a process; all processes of a user or a group are more than the command's own. */
int act_on_processes(const struct call *call, int kind, pid_t pid) {
    return kind ? -EPERM : act_on_process(call, pid);
}

/* --- System V IPC */

static size_t find_made(enum ipc kind, int id) {
    size_t at = 0;
    while (at < made_count && (made[at].kind != kind || made[at].id != id)) at++;
    return at;
}

static int is_made(enum ipc kind, int id) { return find_made(kind, id) < made_count; }

static int note_made(enum ipc kind, int id) {
    void *larger = realloc(made, (made_count + 1) * sizeof *made);
    if (!larger) stop("out of memory", "");
    made = larger;
    made[made_count].kind = kind, made[made_count++].id = id;
    return id;
}

static int get(enum ipc kind, key_t key, const uint64_t *args, int flags) {
    if (kind == MEMORY) return shmget(key, args[1], flags);
    return kind == QUEUE ? msgget(key, flags) : semget(key, (int)args[1], flags);
}

static int control(enum ipc kind, int id, int command, void *data) {
    if (kind == MEMORY) return shmctl(id, command, data);
    return kind == QUEUE ? msgctl(id, command, data) : (int)syscall(SYS_semctl, id, 0, command, data);
}

/* The broker creates it, and so knows that it is new. Those of others look as if they were closed to the command. */
static int get_ipc(const struct call *call, enum ipc kind) {
    key_t key = (key_t)call->args[0];
    int flags = (int)call->args[kind == QUEUE ? 1 : 2], id = -1;
    if (key == IPC_PRIVATE || flags & IPC_CREAT) id = get(kind, key, call->args, flags | (key == IPC_PRIVATE ? 0 : IPC_EXCL));
    if (id >= 0) note_made(kind, id);
    else if (key == IPC_PRIVATE || (flags & IPC_CREAT && (errno != EEXIST || flags & IPC_EXCL))) return -errno;
    else {
        id = get(kind, key, call->args, flags & ~(IPC_CREAT | IPC_EXCL));
        if (id < 0) return -errno;
        if (!is_made(kind, id)) return flags & IPC_CREAT ? -EACCES : -ENOENT;
    }
    answer(call, id, 0, 0);
    return ANSWERED;
}

static int use_ipc(const struct call *call, enum ipc kind) { return is_made(kind, (int)call->args[0]) ? CONTINUE : -EINVAL; }

/* Removed by the broker: the number may mean another one afterwards. Memory lasts while a process has it attached. */
static int remove_ipc(enum ipc kind, int id) {
    struct shmid_ds memory;
    size_t at = find_made(kind, id);
    if (control(kind, id, IPC_RMID, NULL)) return -errno;
    if (kind != MEMORY || shmctl(id, IPC_STAT, &memory)) made[at] = made[--made_count];
    return 0;
}

static int control_ipc(const struct call *call, enum ipc kind) {
    int command = (int)call->args[kind == SEMAPHORES ? 2 : 1] & ~FORMAT_FLAG;
    if (command == IPC_INFO) return CONTINUE; /* what the system allows */
    if (!is_made(kind, (int)call->args[0])) return -EINVAL;
    if (command == IPC_RMID) return remove_ipc(kind, (int)call->args[0]);
    int is_known = command == IPC_SET || command == IPC_STAT || (kind == MEMORY && (command == SHM_LOCK || command == SHM_UNLOCK)) ||
                   (kind == SEMAPHORES && command >= GETPID && command <= SETALL);
    return is_known ? CONTINUE : -EINVAL; /* the others take an index, which may be of any */
}

/* As in a namespace of its own, nothing is left when the command has ended. */
void remove_all_ipc(void) {
    for (size_t i = 0; i < made_count; i++) control(made[i].kind, made[i].id, IPC_RMID, NULL);
    made_count = 0;
}

int handle_processes(const struct call *call, int number) {
    const uint64_t *a = call->args;
    switch (number) {
    case SYS_prlimit64: case SYS_sched_setparam: case SYS_sched_setscheduler: case SYS_sched_setaffinity: case SYS_sched_setattr:
        return act_on_process(call, (pid_t)a[0]);
    case SYS_setpriority: return act_on_processes(call, (int)a[0], (pid_t)a[1]);
    case SYS_ioprio_set: return act_on_processes(call, (int)a[0] - 1, (pid_t)a[1]);
    case SYS_shmget: return get_ipc(call, MEMORY);
    case SYS_semget: return get_ipc(call, SEMAPHORES);
    case SYS_msgget: return get_ipc(call, QUEUE);
    case SYS_shmat: return use_ipc(call, MEMORY);
    case SYS_semop: case SYS_semtimedop: return use_ipc(call, SEMAPHORES);
    case SYS_msgsnd: case SYS_msgrcv: return use_ipc(call, QUEUE);
    case SYS_shmctl: return control_ipc(call, MEMORY);
    case SYS_semctl: return control_ipc(call, SEMAPHORES);
    case SYS_msgctl: return control_ipc(call, QUEUE);
    default: return -ENOSYS; /* nothing else is understood */
    }
}

/* --- terminals */

struct search { unsigned number; int found; };

/* Whether a process holds the other side of the terminal with this number: the kernel says which it is. */
static void find_master(pid_t pid, void *data) {
    struct search *search = data;
    char path[300], text[512], target[64];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *descriptors = search->found ? NULL : opendir(path);
    for (struct dirent *each; descriptors && (each = readdir(descriptors));) {
        snprintf(path, sizeof path, "/proc/%d/fd/%s", pid, each->d_name);
        ssize_t size = readlink(path, target, sizeof target - 1);
        target[size > 0 ? size : 0] = 0;
        if (strcmp(target, "/dev/ptmx") && strcmp(target, "/dev/pts/ptmx")) continue;
        snprintf(path, sizeof path, "/proc/%d/fdinfo/%s", pid, each->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        if (fd >= 0) close(fd);
        text[got > 0 ? got : 0] = 0;
        char *at = strstr(text, "tty-index:");
        if (at && strtoul(at + 10, NULL, 10) == search->number) search->found = 1;
    }
    if (descriptors) closedir(descriptors);
}

/* A terminal of the machine is another's, unless one of the command's processes made it. While we have it open, nobody
   else gets its number, so the search cannot find another terminal. */
int open_terminal(const struct call *call, const struct object *object, int flags) {
    struct stat places;
    char self[64];
    if (!S_ISCHR(object->st.st_mode) || major(object->st.st_rdev) != TERMINAL_MAJOR) return CONTINUE;
    if (stat("/dev/pts", &places) || places.st_dev != object->st.st_dev) return -EACCES;
    struct search search = {.number = minor(object->st.st_rdev)};
    snprintf(self, sizeof self, "/proc/self/fd/%d", object->fd);
    int fd = open(self, (flags & (O_ACCMODE | O_NONBLOCK)) | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return -errno;
    for_each_descendant(find_master, &search);
    if (search.found) return give_descriptor(call, fd, flags & O_CLOEXEC);
    close(fd);
    return -EACCES;
}
