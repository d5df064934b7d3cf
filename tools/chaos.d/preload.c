/* Loaded into the programs of one node of a storm (LD_PRELOAD, tools/chaos.d/preload.py). It moves their wall clock and lets
   writes to a disk fail that the storm has made read-only. The machine's own clock and disks stay as they are.

   MTRUN_CHAOS_PAGE names a file that the storm changes while the programs run. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct page {
  volatile int64_t ahead_s;       /* seconds by which the wall clock is ahead */
  volatile uint64_t refused_disk; /* st_dev of the disk that refuses writes, 0: none */
};

static const struct page kNothing;
static const struct page* page_ = &kNothing;

__attribute__((constructor)) static void MapPage(void) {
  const char* path = getenv("MTRUN_CHAOS_PAGE");
  const int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void* mapped = mmap(NULL, sizeof(struct page), PROT_READ, MAP_SHARED, fd, 0);
  if (mapped != MAP_FAILED) page_ = mapped;
  close(fd);
}

/* Condition variables have an old and a new version of the same name, and dlsym can find the old one. */
static void* Next(const char* name, const char* version) {
  void* found = version ? dlvsym(RTLD_NEXT, name, version) : NULL;
  return found ? found : dlsym(RTLD_NEXT, name);
}
#define NEXT(type, name, version) \
  static type next;               \
  if (!next) next = (type)Next(#name, version)

static int IsWallClock(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

/* ---- reading the clock */

int clock_gettime(clockid_t clock, struct timespec* now) {
  typedef int (*Function)(clockid_t, struct timespec*);
  NEXT(Function, clock_gettime, NULL);
  const int result = next(clock, now);
  if (result == 0 && IsWallClock(clock)) now->tv_sec += page_->ahead_s;
  return result;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  typedef int (*Function)(struct timeval*, void*);
  NEXT(Function, gettimeofday, NULL);
  const int result = next(now, zone);
  if (result == 0) now->tv_sec += page_->ahead_s;
  return result;
}

time_t time(time_t* where) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (where) *where = now.tv_sec;
  return now.tv_sec;
}

int timespec_get(struct timespec* now, int base) {
  return clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

/* ---- waiting for a time of the wall clock: the kernel's clock is not moved, so the time is moved back */

static struct timespec Moved(const struct timespec* until) {
  struct timespec moved = *until;
  moved.tv_sec -= page_->ahead_s;
  if (moved.tv_sec < 0) moved.tv_sec = 0;
  return moved;
}

/* A condition variable can wait by the monotonic clock, whose values are a machine's uptime. */
static int IsWallTime(const struct timespec* until) { return until->tv_sec > 500000000; }

int pthread_cond_timedwait(pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex,
                           const struct timespec* restrict until) {
  typedef int (*Function)(pthread_cond_t*, pthread_mutex_t*, const struct timespec*);
  NEXT(Function, pthread_cond_timedwait, "GLIBC_2.3.2");
  const struct timespec moved = IsWallTime(until) ? Moved(until) : *until;
  return next(condition, mutex, &moved);
}

int pthread_cond_clockwait(pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex,
                           clockid_t clock, const struct timespec* restrict until) {
  typedef int (*Function)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
  NEXT(Function, pthread_cond_clockwait, NULL);
  const struct timespec moved = IsWallClock(clock) ? Moved(until) : *until;
  return next(condition, mutex, clock, &moved);
}

int pthread_mutex_timedlock(pthread_mutex_t* restrict mutex, const struct timespec* restrict until) {
  typedef int (*Function)(pthread_mutex_t*, const struct timespec*);
  NEXT(Function, pthread_mutex_timedlock, NULL);
  const struct timespec moved = Moved(until);
  return next(mutex, &moved);
}

int sem_timedwait(sem_t* restrict semaphore, const struct timespec* restrict until) {
  typedef int (*Function)(sem_t*, const struct timespec*);
  NEXT(Function, sem_timedwait, NULL);
  const struct timespec moved = Moved(until);
  return next(semaphore, &moved);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec* wanted, struct timespec* left) {
  typedef int (*Function)(clockid_t, int, const struct timespec*, struct timespec*);
  NEXT(Function, clock_nanosleep, NULL);
  const struct timespec moved = IsWallClock(clock) && (flags & TIMER_ABSTIME) ? Moved(wanted) : *wanted;
  return next(clock, flags, &moved, left);
}

/* Abseil calls futex directly. */
long syscall(long number, ...) {
  typedef long (*Function)(long, ...);
  NEXT(Function, syscall, NULL);
  va_list list;
  long words[6];
  va_start(list, number);
  for (int i = 0; i < 6; ++i) words[i] = va_arg(list, long);
  va_end(list);
  struct timespec moved;
  const int waits = (words[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && (words[1] & FUTEX_CLOCK_REALTIME);
  if (number == SYS_futex && waits && words[3]) {
    moved = Moved((const struct timespec*)words[3]);
    words[3] = (long)&moved;
  }
  return next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

/* ---- writing to files opened before the disk became read-only */

static int IsRefused(int fd) {
  struct stat found;
  return page_->refused_disk && fstat(fd, &found) == 0 && S_ISREG(found.st_mode) &&
         found.st_dev == page_->refused_disk;
}

ssize_t write(int fd, const void* data, size_t size) {
  typedef ssize_t (*Function)(int, const void*, size_t);
  NEXT(Function, write, NULL);
  if (!IsRefused(fd)) return next(fd, data, size);
  errno = EROFS;
  return -1;
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  typedef ssize_t (*Function)(int, const void*, size_t, off_t);
  NEXT(Function, pwrite, NULL);
  if (!IsRefused(fd)) return next(fd, data, size, at);
  errno = EROFS;
  return -1;
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  typedef ssize_t (*Function)(int, const struct iovec*, int);
  NEXT(Function, writev, NULL);
  if (!IsRefused(fd)) return next(fd, parts, count);
  errno = EROFS;
  return -1;
}
