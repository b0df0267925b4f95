// Preloaded into a server, this gives it a clock and a disk that can be disturbed.
//
// Its wall clock moves by the nanoseconds that the first eight bytes of the file
// $LOCKBENCH_CLOCK hold, ahead or back, from the next reading on. Other clocks stay, and so
// do waits that have begun.
//
// Of each sync of a file that has succeeded, the file $LOCKBENCH_SYNCS gets a line with the
// file's inode and the size that it had when the sync began: what a loss of power leaves of
// it. While the first eight bytes of the file $LOCKBENCH_DISK are not 0 no sync ends.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { second = 1000000000 };

static int64_t none;
static volatile int64_t *ahead = &none, *stuck = &none;
static int syncs = -1;
static int (*wait_until)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

static volatile int64_t *map(const char *name) {
	const char *path = getenv(name);
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0) return &none;
	void *page = mmap(0, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return page == MAP_FAILED ? &none : page;
}

// The files are mapped before main: some servers overwrite their environment.
__attribute__((constructor)) static void begin(void) {
	wait_until = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
	ahead = map("LOCKBENCH_CLOCK");
	stuck = map("LOCKBENCH_DISK");
	const char *path = getenv("LOCKBENCH_SYNCS");
	if (path) syncs = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
}

static struct timespec moved(struct timespec t, int64_t by) {
	int64_t ns = t.tv_nsec + by % second;
	t.tv_sec += by / second;
	if (ns < 0) ns += second, t.tv_sec--;
	if (ns >= second) ns -= second, t.tv_sec++;
	t.tv_nsec = ns;
	return t;
}

// The system is asked itself: to look for the function of the C library takes memory, and
// an allocator may read the clock for that.
int clock_gettime(clockid_t id, struct timespec *t) {
	int r = syscall(SYS_clock_gettime, id, t);
	if (r == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) *t = moved(*t, *ahead);
	return r;
}

int gettimeofday(struct timeval *restrict v, void *restrict zone) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if (v) v->tv_sec = t.tv_sec, v->tv_usec = t.tv_nsec / 1000;
	if (zone) memset(zone, 0, sizeof(struct timezone));
	return 0;
}

time_t time(time_t *to) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if (to) *to = t.tv_sec;
	return t.tv_sec;
}

// A wait until an instant of the moved clock, or it would be too long by the jump. An
// instant of a clock that counts from the boot is smaller than any of the wall clock.
int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, const struct timespec *restrict until) {
	struct timespec at = *until;
	if (at.tv_sec > second) at = moved(at, -*ahead);
	return wait_until(c, m, &at);
}

static int synced(int fd, long call) {
	struct stat at;
	int file = syncs >= 0 && fstat(fd, &at) == 0 && S_ISREG(at.st_mode);
	while (*stuck) nanosleep(&(struct timespec){0, 1000000}, 0);
	int r = syscall(call, fd);
	if (r == 0 && file) dprintf(syncs, "%llu %lld\n", (unsigned long long)at.st_ino, (long long)at.st_size);
	return r;
}

int fsync(int fd) { return synced(fd, SYS_fsync); }

int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }
