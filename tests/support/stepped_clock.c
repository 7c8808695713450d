/* Preloaded into a server: its wall clock is the machine's plus an offset that the test changes while it runs. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Microseconds, in a file that the test writes. */
static const volatile int64_t *offset;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("DISTLOCK_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (map == MAP_FAILED) _exit(99);
    offset = map;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    long result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t micros = time->tv_sec * 1000000LL + time->tv_nsec / 1000 + *offset;
        time->tv_sec = micros / 1000000;
        time->tv_nsec = micros % 1000000 * 1000 + time->tv_nsec % 1000;
    }
    return (int)result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec time;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &time);
    *now = (struct timeval){time.tv_sec, time.tv_nsec / 1000};
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
