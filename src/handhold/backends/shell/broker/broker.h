/* The broker holds a command without namespaces. The command has no right to change the workspace (Landlock); each
   system call that would change it waits (seccomp user notification) until the broker has written an undo record, made
   the change itself and answered. Nothing that the command does between a check and its use matters, because the broker
   works on the descriptors that it opened, and never lets a change continue.

   One process, one thread: an answer is complete before the next call is looked at. Only an open or a connect that may
   block is left to a forked child.

   Every function that can fail returns a negative error number, as the kernel does. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Not every C library has them. */
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#endif

#define MAX_PATH 4096
#define MAX_ROOTS 64
#define CONTINUE 1 /* the kernel decides, and Landlock with it */
#define ANSWERED 2 /* somebody else has answered or will */

/* A folder of the workspace. `store` is a private folder on the same mount, for what the command displaces. */
struct root {
    const char *path;
    const char *store_path;
    int store;
    int writable;
    int own_only; /* a temporary folder of the machine: only what the session created there may be changed, unrecorded */
    unsigned device;
};

extern struct root roots[MAX_ROOTS];
extern int root_count;
extern const char *writable_places[MAX_ROOTS]; /* outside the workspace, where Landlock lets the command write */
extern int writable_count;
extern int listener;

/* A call that waits. */
struct call {
    uint64_t id;
    pid_t tid;
    const uint64_t *args;
};

/* An entry: a name in a folder. `root` is NULL outside the workspace. */
struct entry {
    int dir;
    const struct root *root;
    int has_slash; /* the caller wrote a slash behind the name: it means a folder */
    char name[256];
    char path[2 * MAX_PATH];
};

/* An object that exists, opened with O_PATH. */
struct object {
    int fd;
    const struct root *root;
    struct stat st;
    char path[2 * MAX_PATH];
};

/* main.c */
int is_waiting(const struct call *call);
void for_each_descendant(void (*act)(pid_t pid, void *data), void *data);
int is_descendant(pid_t pid);
int add_descriptor(const struct call *call, int fd, int close_on_exec);
int give_descriptor(const struct call *call, int fd, int close_on_exec);
int give_readable(const struct call *call, int fd, int close_on_exec);
void answer(const struct call *call, int64_t value, int error, uint32_t flags);
__attribute__((noreturn)) void stop(const char *why, const char *what);

/* launch.c */
struct launch {
    char **command;
    const char **readable;
    int readable_count, filters[2], memory_set, processes_set, network, scoped;
    uint64_t memory, processes, mark;
};
pid_t start_command(const struct launch *launch);
void drop_capabilities(void);

/* paths.c */
int read_memory(const struct call *call, uint64_t address, void *data, size_t size);
int read_path(const struct call *call, uint64_t address, char *path);
int is_below(const char *path, const char *top);
const struct root *find_root(const char *path);
int is_writable_place(const char *path);
int resolve_entry(const struct call *call, int folder, const char *path, struct entry *entry);
int resolve_object(const struct call *call, int folder, const char *path, int flags, struct object *object);
int open_real_folder(const char *path);
int open_caller_fd(const struct call *call, int fd, struct object *object);
int describe(int fd, struct object *object);
int stat_inode(int dir, const char *name, struct stat *st);
int check_root(const struct root *root);
int check_policy(const char *first, const char *second, int is_folder);
extern int policy_fd;
int contains_root(const char *path);
int is_ours(int dir, const char *name, const struct stat *st);
mode_t read_umask(const struct call *call);
extern int umask_changed;

/* undo_log.c */
enum kind {
    MOVE = 'M',     /* an inode that was there before, or any folder, gets another name; also into the store */
    EXCHANGE = 'X', /* two names are exchanged */
    EXCHANGED = 'x', /* the other inode of an exchange, with its names in this order */
    KEEP = 'L',     /* an inode gets a second name in the store, because its first is about to be replaced */
    REMOVE = 'D',   /* an empty folder is removed */
    CREATE = 'C',   /* a name will appear in a folder that was there before; its inode is not known yet */
    CREATED = 'c',  /* an inode was created; without a path, in a folder that the command created too */
    LINK = 'K',     /* an inode that was there before gets another name */
    SAVE = 'S',     /* metadata, and content if a copy is named, before the first change of an inode */
    TOUCH = 'T',    /* an inode that was saved is opened for writing under this name */
    CANCEL = '-',   /* the records from this offset on, except for saved ones, did not happen */
    REFUSED = 'R',  /* a change was refused because nothing could be saved */
    DENIED = 'N',   /* a change was refused because a rule denies it */
    STARTED = 'B',  /* the command runs */
    ENDED = 'E',    /* nothing that it started is left */
};
void open_log(const char *path);
void check_births(const char *root);
size_t log_position(void);
int log_record(enum kind kind, const struct stat *st, const char *first, const char *second);
void log_cancel(size_t from);
int save_metadata(const struct object *object);
int save_content(const struct object *object);
int save_folder(const struct entry *entry);
void forget_inode(const struct stat *st);
void note_kept(const struct stat *st, const char *path);
const char *find_kept(const struct stat *st);
int is_born(const struct stat *st);
unsigned count_links(const struct stat *st);
void count_link(const struct stat *st);
int copy_content(int from, int to, int64_t size);
int is_copy(const struct stat *st);
void mark_born(const struct stat *st);
void open_registry(const char *path);
void lock_session(int locked);
uint64_t identify(int dir, const char *name);
void register_key(uint64_t key);
int is_registered(uint64_t key);
void register_ours(int dir, const char *name);
int next_store_name(const struct root *root, char *name, char *path);

/* names.c and opens.c and metadata.c */
int make_folder(const struct call *call, int folder, uint64_t path, mode_t mode);
int make_node(const struct call *call, int folder, uint64_t path, mode_t mode);
int make_link(const struct call *call, uint64_t target, int folder, uint64_t path);
int hard_link(const struct call *call, int old_folder, uint64_t old, int new_folder, uint64_t new, int flags);
int rename_entry(const struct call *call, int old_folder, uint64_t old, int new_folder, uint64_t new, unsigned flags);
int remove_entry(const struct call *call, int folder, uint64_t path, int is_folder);
int begin_create(const struct entry *entry, int is_folder);
void note_created(const struct entry *entry, int dir, const char *name);
int end_create(const struct entry *entry, int failed);
int open_file(const struct call *call, int folder, uint64_t path, int flags, mode_t mode);
int truncate_file(const struct call *call, uint64_t path, int64_t size);
int handle_metadata(const struct call *call, int number);

/* hidden.c */
void hide(const char *path);
int is_hidden(const struct stat *st, const char *path);
int is_in_hidden_folder(const char *path);
int holds_hidden(const char *path);
void prepare_programs(struct launch *launch);
int start_program(const struct call *call, int folder, uint64_t path, int flags);

/* processes.c */
int handle_processes(const struct call *call, int number);
int open_terminal(const struct call *call, const struct object *object, int flags);
void remove_all_ipc(void);

/* copies.c */
int is_same(const struct stat *a, const struct stat *b);
int copy_file(const struct object *object, int from, int to);
int find_entry(const struct object *object, struct entry *entry);
int exchange_exactly(const struct entry *entry, const char *name, const struct stat *expected);
int separate_names(struct object *object);

/* sockets.c */
int make_socket(const struct call *call);
int bind_socket(const struct call *call);
int listen_socket(const struct call *call);
int connect_socket(const struct call *call);
void allow_listener(uint64_t inode);
void close_sockets(int kept);
void mark_alive_sockets(pid_t pid, void *alive);
