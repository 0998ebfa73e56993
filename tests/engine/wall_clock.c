// Preloaded, it moves the wall clock of one process: the file named by AISP_WALL_CLOCK says by how many seconds, and is
// read at each call. Every other clock is as it was.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long ahead_s(void) {
    const char* path = getenv("AISP_WALL_CLOCK");
    FILE* file = path ? fopen(path, "r") : NULL;
    long seconds = 0;
    if (file) {
        if (fscanf(file, "%ld", &seconds) != 1) seconds = 0;
        fclose(file);
    }
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
    static int (*original)(clockid_t, struct timespec*);
    if (!original) original = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
    int status = original(clock, now);
    if (status == 0 && clock == CLOCK_REALTIME) now->tv_sec += ahead_s();
    return status;
}

time_t time(time_t* into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval* restrict into, void* restrict zone) {
    (void)zone;
    struct timespec now;
    int status = clock_gettime(CLOCK_REALTIME, &now);
    into->tv_sec = now.tv_sec;
    into->tv_usec = now.tv_nsec / 1000;
    return status;
}
