// A library that is loaded before the others and gives the processor time of the process for the host's clock. What waits for a
// moment of that clock, which stands still meanwhile, looks again every 20 ms.
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec* time) {
  return (int)syscall(SYS_clock_gettime, clock == CLOCK_MONOTONIC ? CLOCK_PROCESS_CPUTIME_ID : clock, time);
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const struct timespec* until) {
  struct timespec soon;
  (void)clock, (void)until;
  clock_gettime(CLOCK_REALTIME, &soon);
  soon.tv_nsec += 20000000;
  if (soon.tv_nsec >= 1000000000) soon.tv_nsec -= 1000000000, ++soon.tv_sec;
  return pthread_cond_timedwait(condition, mutex, &soon);
}
