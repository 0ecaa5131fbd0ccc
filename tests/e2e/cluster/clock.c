/* A wall clock that is CLOCK_AHEAD_S seconds ahead, for the processes it is preloaded into.
 *
 * The monotonic clock stays as it is.  The kernel knows nothing of this clock, so a moment of it to
 * wait for is turned back first.  Whether a moment is of the wall clock shows by its size: a machine
 * that has been up for less than 30 years has no such monotonic time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define WALL_S 1000000000

static long ahead_s;

__attribute__((constructor)) static void read_ahead(void)
{
    const char *text = getenv("CLOCK_AHEAD_S");
    ahead_s = text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    long failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += ahead_s;
    return (int)failed;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *told)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (told)
        *told = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *now, int base)
{
    clock_gettime(CLOCK_REALTIME, now); /* base: there is only TIME_UTC */
    return base;
}

static struct timespec real(const struct timespec *until)
{
    struct timespec turned = *until;
    if (turned.tv_sec >= WALL_S)
        turned.tv_sec -= ahead_s;
    return turned;
}

/* The C library's own function.  pthread_cond_timedwait has two versions; the older one is not for
 * the conditions that programs make today. */
static void *own(const char *name, const char *version)
{
    void *found = version ? dlvsym(RTLD_NEXT, name, version) : NULL;
    return found ? found : dlsym(RTLD_NEXT, name);
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
    static int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    struct timespec turned = real(until);
    if (!next)
        next = own("pthread_cond_timedwait", "GLIBC_2.3.2");
    return next(cond, mutex, &turned);
}

int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *until)
{
    static int (*next)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
    struct timespec turned = real(until);
    if (!next)
        next = own("pthread_cond_clockwait", NULL);
    return next(cond, mutex, clock, &turned);
}

int cnd_timedwait(cnd_t *cond, mtx_t *mutex, const struct timespec *until)
{
    static int (*next)(cnd_t *, mtx_t *, const struct timespec *);
    struct timespec turned = real(until);
    if (!next)
        next = own("cnd_timedwait", NULL);
    return next(cond, mutex, &turned);
}

int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until)
{
    static int (*next)(pthread_mutex_t *, const struct timespec *);
    struct timespec turned = real(until);
    if (!next)
        next = own("pthread_mutex_timedlock", NULL);
    return next(mutex, &turned);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until)
{
    static int (*next)(sem_t *, const struct timespec *);
    struct timespec turned = real(until);
    if (!next)
        next = own("sem_timedwait", NULL);
    return next(semaphore, &turned);
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until)
{
    static int (*next)(sem_t *, clockid_t, const struct timespec *);
    struct timespec turned = real(until);
    if (!next)
        next = own("sem_clockwait", NULL);
    return next(semaphore, clock, &turned);
}
