/* Loaded before libc: makes calls that change files fail, end the process, or lets the clock jump. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static volatile long before = -1, times = 0, met = 0;
static volatile int code = 0, only = 0;
static volatile long shift = 0;

enum { ANY, WRITE, SYNC, RENAME, REMOVE, MAKE };

/* After `skip` calls of the kind `which`, `count` of them fail with `error`; 0 kills instead. */
void fault_set(long skip, int error, long count, int which) {
    code = error;
    times = count;
    met = 0;
    only = which;
    before = skip;
}
long fault_met(void) { return met; }
void fault_clock(long seconds) { shift = seconds; }

static int due(int which) {
    if (before < 0 || (only && only != which)) return 0;
    if (before > 0) { before--; return 0; }
    if (times <= 0) return 0;
    times--;
    met++;
    return 1;
}

static int fail(void) {
    if (!code) kill(getpid(), SIGKILL);
    errno = code;
    return -1;
}

static int hit(int which) { return due(which) && fail(); }

static int due_file(int fd, int which) {
    struct stat found;
    return before >= 0 && !fstat(fd, &found) && S_ISREG(found.st_mode) && due(which);
}

static int hit_file(int fd, int which) { return due_file(fd, which) && fail(); }

#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)

/* A write that fails has written its first half. */
ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    if (!due_file(fd, WRITE)) return real(fd, data, size);
    if (real(fd, data, size / 2)) {}
    return fail();
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    REAL(pwrite);
    if (!due_file(fd, WRITE)) return real(fd, data, size, at);
    if (real(fd, data, size / 2, at)) {}
    return fail();
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL(pwrite64);
    if (!due_file(fd, WRITE)) return real(fd, data, size, at);
    if (real(fd, data, size / 2, at)) {}
    return fail();
}

/* Only what may make a file. */
int open(const char *path, int flags, ...) {
    REAL(open);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return flags & O_CREAT && hit(MAKE) ? -1 : real(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    REAL(open64);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return flags & O_CREAT && hit(MAKE) ? -1 : real(path, flags, mode);
}

int fsync(int fd) { REAL(fsync); return hit_file(fd, SYNC) ? -1 : real(fd); }
int fdatasync(int fd) { REAL(fdatasync); return hit_file(fd, SYNC) ? -1 : real(fd); }
int ftruncate(int fd, off_t size) { REAL(ftruncate); return hit_file(fd, WRITE) ? -1 : real(fd, size); }
int ftruncate64(int fd, off64_t size) { REAL(ftruncate64); return hit_file(fd, WRITE) ? -1 : real(fd, size); }
int rename(const char *old, const char *fresh) { REAL(rename); return hit(RENAME) ? -1 : real(old, fresh); }
int mkdir(const char *path, mode_t mode) { REAL(mkdir); return hit(MAKE) ? -1 : real(path, mode); }
int rmdir(const char *path) { REAL(rmdir); return hit(REMOVE) ? -1 : real(path); }
int unlinkat(int folder, const char *path, int flags) { REAL(unlinkat); return hit(REMOVE) ? -1 : real(folder, path, flags); }
int unlink(const char *path) { REAL(unlink); return hit(REMOVE) ? -1 : real(path); }

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    int answer = real(clock, now);
    if (!answer && clock == CLOCK_REALTIME) now->tv_sec += shift;
    return answer;
}
