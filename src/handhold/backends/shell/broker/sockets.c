/* Sockets belong to the broker: it makes them, hands them over, and binds or connects its own duplicate to an address
   that it has read once. Commands reach TCP on the loopback interface, and there only sockets that their session
   listens on; Unix sockets with a path that it bound; and nothing else.

   A duplicate would keep a connection open, so it is dropped as soon as the socket listens or connects. */

#include "broker.h"
#include <dirent.h>
#include <linux/inet_diag.h>
#include <linux/landlock.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define MAX_SOCKETS 512
#define LISTENING 10 /* TCP_LISTEN */
#define BIND_TO_INTERFACE 62 /* SO_BINDTOIFINDEX */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un path;
    struct sockaddr_nl netlink;
};

struct inode_set { uint64_t *inodes; size_t count, room; };

static struct { uint64_t inode; int fd, family; } sockets[MAX_SOCKETS];
static struct inode_set reachable, connected;

static void add_inode(struct inode_set *set, uint64_t inode) {
    if (set->count == set->room) {
        set->room = set->room ? 2 * set->room : 64;
        set->inodes = realloc(set->inodes, set->room * sizeof *set->inodes);
        if (!set->inodes) stop("out of memory", "");
    }
    set->inodes[set->count++] = inode;
}

static int has_inode(const struct inode_set *set, uint64_t inode) {
    for (size_t i = set->count; i--;)
        if (set->inodes[i] == inode) return 1;
    return 0;
}

void allow_listener(uint64_t inode) { add_inode(&reachable, inode); }

/* A listening socket, or the file of a bound one, that commands of this session may connect to. */
static void share(uint64_t key) {
    add_inode(&reachable, key);
    register_key(key);
}

static int is_reachable(uint64_t key) { return has_inode(&reachable, key) || is_registered(key); }

/* The file of a bound socket has another key than a file that the session created. */
static uint64_t identify_file(int dir, const char *name) { return identify(dir, name) | 1ULL << 63; }

static void drop(int at) {
    close(sockets[at].fd);
    sockets[at].inode = 0;
}

/* In a forked child: what the command closes must not stay open there. */
void close_sockets(int kept) {
    for (int i = 0; i < MAX_SOCKETS; i++)
        if (sockets[i].inode && i != kept) close(sockets[i].fd);
}

/* The inode of the caller's descriptor; 0 if it is no socket. */
static uint64_t read_socket_inode(pid_t tid, int fd) {
    char name[64], text[64];
    snprintf(name, sizeof name, "/proc/%d/fd/%d", tid, fd);
    ssize_t size = readlink(name, text, sizeof text - 1);
    text[size > 0 ? size : 0] = 0;
    return strncmp(text, "socket:[", 8) ? 0 : strtoull(text + 8, NULL, 10);
}

static int find_socket(uint64_t inode) {
    for (int i = 0; inode && i < MAX_SOCKETS; i++)
        if (sockets[i].inode == inode) return i;
    return -1;
}

/* Whether the command still has a socket: drop the duplicates of those that it has closed. */
static void drop_closed(void) {
    static char alive[MAX_SOCKETS];
    memset(alive, 0, sizeof alive);
    for_each_descendant(mark_alive_sockets, alive);
    for (int i = 0; i < MAX_SOCKETS; i++)
        if (sockets[i].inode && !alive[i]) drop(i);
}

void mark_alive_sockets(pid_t pid, void *alive) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *descriptors = opendir(path);
    for (struct dirent *each; descriptors && (each = readdir(descriptors));) {
        int at = find_socket(read_socket_inode(pid, atoi(each->d_name)));
        if (at >= 0) ((char *)alive)[at] = 1;
    }
    if (descriptors) closedir(descriptors);
}

int make_socket(const struct call *call) {
    int family = (int)call->args[0], type = (int)call->args[1], protocol = (int)call->args[2], kind = type & 15;
    struct stat st;
    int is_inet = (family == AF_INET || family == AF_INET6) && kind == SOCK_STREAM && (!protocol || protocol == IPPROTO_TCP);
    int is_unix = family == AF_UNIX && (kind == SOCK_STREAM || kind == SOCK_SEQPACKET) && !protocol;
    int is_route = family == AF_NETLINK && (kind == SOCK_RAW || kind == SOCK_DGRAM) && protocol == NETLINK_ROUTE;
    if (!is_inet && !is_unix && !is_route) return -EAFNOSUPPORT;
    int fd = socket(family, type | SOCK_CLOEXEC, protocol);
    if (fd < 0) return -errno;
    int interface = is_inet ? (int)if_nametoindex("lo") : 0;
    int failed = fstat(fd, &st) ? -errno : 0;
    if (is_inet && (!interface || setsockopt(fd, SOL_SOCKET, BIND_TO_INTERFACE, &interface, sizeof interface))) failed = -EACCES;
    int at = 0;
    for (int tries = 0; tries < 2; tries++) {
        for (at = 0; at < MAX_SOCKETS && sockets[at].inode; at++) {}
        if (at < MAX_SOCKETS) break;
        drop_closed();
    }
    if (!failed && at == MAX_SOCKETS) failed = -EMFILE;
    int copy = failed ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (!failed && copy < 0) failed = -errno;
    if (failed) return close(fd), failed;
    sockets[at].inode = st.st_ino, sockets[at].fd = copy, sockets[at].family = family;
    failed = give_descriptor(call, fd, type & SOCK_CLOEXEC);
    if (failed != ANSWERED) drop(at);
    return failed;
}

static int read_address(const struct call *call, union address *address) {
    size_t size = call->args[2];
    memset(address, 0, sizeof *address);
    if (size < sizeof(sa_family_t) || size > sizeof *address) return -EINVAL;
    int got = read_memory(call, call->args[1], address, size);
    if (got != (int)size) return got < 0 ? got : -EFAULT;
    return is_waiting(call) ? 0 : -EINTR;
}

/* Whether an address is on the loopback interface; the one that means any is, too, since sockets are pinned to it. */
static int is_loopback(const union address *address) {
    if (address->any.sa_family == AF_INET) {
        uint32_t host = ntohl(address->v4.sin_addr.s_addr);
        return host >> 24 == 127 || host == INADDR_ANY;
    }
    const struct in6_addr *host = &address->v6.sin6_addr;
    if (address->v6.sin6_scope_id) return 0;
    return IN6_IS_ADDR_LOOPBACK(host) || IN6_IS_ADDR_UNSPECIFIED(host) || (IN6_IS_ADDR_V4MAPPED(host) && host->s6_addr[12] == 127);
}

/* The inode of the socket that would accept a connection; 0 if there is none. */
static uint64_t find_listener(const union address *address) {
    struct { struct nlmsghdr header; struct inet_diag_req_v2 request; } query = {
        .header = {sizeof query, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0},
        .request = {.sdiag_protocol = IPPROTO_TCP, .idiag_states = 1U << LISTENING},
    };
    struct inet_diag_sockid *id = &query.request.id;
    id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    id->idiag_if = if_nametoindex("lo");
    if (address->any.sa_family == AF_INET) {
        query.request.sdiag_family = AF_INET;
        id->idiag_sport = address->v4.sin_port;
        id->idiag_src[0] = address->v4.sin_addr.s_addr ? address->v4.sin_addr.s_addr : htonl(INADDR_LOOPBACK);
    } else if (IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr)) {
        query.request.sdiag_family = AF_INET;
        id->idiag_sport = address->v6.sin6_port;
        memcpy(id->idiag_src, address->v6.sin6_addr.s6_addr + 12, 4);
    } else {
        struct in6_addr loopback = IN6ADDR_LOOPBACK_INIT;
        query.request.sdiag_family = AF_INET6;
        id->idiag_sport = address->v6.sin6_port;
        memcpy(id->idiag_src, &loopback, sizeof loopback);
    }
    static char reply[4096] __attribute__((aligned(8)));
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    ssize_t got = fd >= 0 && send(fd, &query, sizeof query, 0) > 0 ? recv(fd, reply, sizeof reply, 0) : -1;
    if (fd >= 0) close(fd);
    struct nlmsghdr *header = (struct nlmsghdr *)reply;
    if (got < (ssize_t)NLMSG_LENGTH(sizeof(struct inet_diag_msg)) || header->nlmsg_type != SOCK_DIAG_BY_FAMILY) return 0;
    struct inet_diag_msg *found = NLMSG_DATA(header);
    return found->idiag_state == LISTENING ? found->idiag_inode : 0;
}

/* Whether the path means an entry of the workspace literally. Then only the broker could let it lead elsewhere. */
static int is_literal(const char *path, const struct entry *entry) {
    char folder[MAX_PATH];
    if (*path == '/') return !strcmp(path, entry->path);
    if (!getcwd(folder, sizeof folder)) return 0;
    size_t size = strlen(folder);
    return !strncmp(entry->path, folder, size) && entry->path[size] == '/' && !strcmp(entry->path + size + 1, path);
}

/* The socket gets the name that the caller wrote, as far as possible, in a child that is where the caller is. Landlock
   lets it create sockets only in the folder that was checked, wherever the path leads by now. */
static int bind_in_child(const struct call *call, int fd, const union address *address, const char *path, const struct entry *entry) {
    struct landlock_ruleset_attr handled = {.handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_SOCK};
    struct landlock_path_beneath_attr rule = {LANDLOCK_ACCESS_FS_MAKE_SOCK, entry->dir};
    union address bare = {.path = {.sun_family = AF_UNIX}};
    char folder[64];
    int status;
    pid_t child = fork();
    if (child < 0) return -errno;
    if (child) return waitpid(child, &status, 0) == child && WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
    snprintf(folder, sizeof folder, "/proc/%d/cwd", call->tid);
    int is_there = !chdir(folder); /* while we may still look at the caller */
    int rules = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled.handled_access_fs, 0);
    if (rules < 0 || syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0)) _exit(EACCES);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_restrict_self, rules, 0)) _exit(EACCES);
    if (is_there && (!entry->root || is_literal(path, entry)))
        _exit(bind(fd, &address->any, (socklen_t)call->args[2]) ? errno : 0);
    int size = snprintf(bare.path.sun_path, sizeof bare.path.sun_path, "%s", entry->name);
    if (size >= (int)sizeof bare.path.sun_path) _exit(ENAMETOOLONG);
    _exit(fchdir(entry->dir) || bind(fd, &bare.any, sizeof bare.path) ? errno : 0);
}

static int bind_path(const struct call *call, int fd, const union address *address) {
    struct entry entry;
    struct stat st;
    char path[sizeof address->path.sun_path + 1] = "";
    memcpy(path, address->path.sun_path, sizeof address->path.sun_path);
    if (!*path) return -EACCES; /* an abstract name is in no folder */
    int failed = resolve_entry(call, AT_FDCWD, path, &entry);
    if (failed) return failed < 0 ? failed : -EADDRINUSE;
    if (entry.root) failed = check_root(entry.root);
    else if (!is_writable_place(entry.path)) failed = -EROFS;
    if (!failed && !fstatat(entry.dir, entry.name, &st, AT_SYMLINK_NOFOLLOW)) failed = -EADDRINUSE;
    size_t before = log_position();
    if (!failed && entry.root) failed = begin_create(&entry, 0);
    if (failed == -EEXIST) failed = -EADDRINUSE;
    if (!failed) {
        umask(read_umask(call));
        failed = bind_in_child(call, fd, address, path, &entry);
        if (failed && entry.root) log_cancel(before);
        if (!failed && entry.root) end_create(&entry, 0);
        if (!failed && identify(entry.dir, entry.name)) share(identify_file(entry.dir, entry.name));
    }
    close(entry.dir);
    return failed;
}

int bind_socket(const struct call *call) {
    union address address;
    int at = find_socket(read_socket_inode(call->tid, (int)call->args[0]));
    if (at < 0) return -EACCES;
    int failed = read_address(call, &address), fd = sockets[at].fd;
    if (failed) return failed;
    if (address.any.sa_family != sockets[at].family) return -EINVAL;
    if (sockets[at].family == AF_UNIX) return bind_path(call, fd, &address);
    if (sockets[at].family == AF_NETLINK) address.netlink.nl_groups = 0;
    else if (!is_loopback(&address)) return -EADDRNOTAVAIL;
    if (!bind(fd, &address.any, (socklen_t)call->args[2])) return 0;
    if (errno != EADDRINUSE) return -errno;
    drop_closed(); /* the command may have closed the socket that had this port */
    return bind(fd, &address.any, (socklen_t)call->args[2]) ? -errno : 0;
}

int listen_socket(const struct call *call) {
    uint64_t inode = read_socket_inode(call->tid, (int)call->args[0]);
    int at = find_socket(inode);
    if (at < 0) return has_inode(&reachable, inode) ? 0 : -EACCES;
    if (listen(sockets[at].fd, (int)call->args[1])) return -errno;
    share(inode);
    drop(at);
    return 0;
}

/* Fills in the address to use: a path is reached through the descriptor that was checked, which is left in `object`. */
static int check_target(const struct call *call, int family, union address *address, struct object *object) {
    if (family == AF_UNIX) {
        char path[sizeof address->path.sun_path + 1] = "";
        memcpy(path, address->path.sun_path, sizeof address->path.sun_path);
        if (!*path) return -ECONNREFUSED;
        int failed = resolve_object(call, AT_FDCWD, path, 0, object);
        if (failed) return failed;
        if (!S_ISSOCK(object->st.st_mode) || !identify(object->fd, "") || !is_reachable(identify_file(object->fd, "")))
            return -ECONNREFUSED;
        snprintf(address->path.sun_path, sizeof address->path.sun_path, "/proc/self/fd/%d", object->fd);
        return 0;
    }
    if (family == AF_NETLINK) return -EACCES;
    if (!is_loopback(address)) return -ENETUNREACH;
    uint64_t listener = find_listener(address);
    return listener && is_reachable(listener) ? 0 : -ECONNREFUSED;
}

int connect_socket(const struct call *call) {
    union address address;
    struct object object = {.fd = -1};
    uint64_t inode = read_socket_inode(call->tid, (int)call->args[0]);
    int at = find_socket(inode);
    if (at < 0) return has_inode(&connected, inode) ? -EISCONN : -EACCES;
    int failed = read_address(call, &address), family = sockets[at].family;
    if (!failed && address.any.sa_family != family) failed = -EAFNOSUPPORT;
    if (!failed) failed = check_target(call, family, &address, &object);
    if (failed) {
        if (object.fd >= 0) close(object.fd);
        return failed;
    }
    socklen_t size = family == AF_UNIX ? sizeof address.path : family == AF_INET ? sizeof address.v4 : sizeof address.v6;
    int waits = !(fcntl(sockets[at].fd, F_GETFL) & O_NONBLOCK);
    pid_t child = waits ? fork() : 0;
    if (child < 0) failed = -errno;
    else if (!child) {
        if (waits) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close_sockets(at);
        }
        if (connect(sockets[at].fd, &address.any, size)) failed = -errno;
        if (waits) {
            answer(call, 0, failed, 0);
            _exit(0);
        }
    }
    if (object.fd >= 0) close(object.fd);
    if (waits && !failed) failed = ANSWERED;
    if (failed == ANSWERED || !failed || failed == -EINPROGRESS) {
        add_inode(&connected, inode);
        drop(at);
    }
    return failed;
}
