/* libfaketime 0.9 makes nonsense of sleeping until a time of the monotonic clock when that clock is left alone (EINVAL),
   and Python sleeps so since 3.11. Put before libfaketime, this lets the kernel do it. */
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left) {
    return syscall(SYS_clock_nanosleep, clock, flags, until, left) == -1 ? errno : 0;
}
