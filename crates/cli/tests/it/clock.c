// Lets a test set the time of day ahead for the programs it starts, as if the machine had slept:
// their leases expire without a wait. Loaded by LD_PRELOAD. BOWLINE_TEST_CLOCK names a file with
// two 64-bit numbers: the offset of the clock in seconds, and whether the time was read.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shared;

__attribute__((constructor)) static void open_shared(void) {
    const char *path = getenv("BOWLINE_TEST_CLOCK");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) {
        return;
    }
    void *page = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (page != MAP_FAILED) {
        shared = page;
    }
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME && shared) {
        now->tv_sec += shared[0];
        shared[1] = 1;
    }
    return failed ? -1 : 0;
}
