// Makes system calls of one process fail, interrupts its threads and moves its wall clock: a library for LD_PRELOAD.
// tests/chaos/run.sh compiles it; tests/chaos/shim.lua writes its control file and reads its counters.
//
// lio makes most system calls without the C library, so replacing functions of the C library is not enough. A seccomp
// filter turns each system call of a list into SIGSYS; the handler returns an error in its place, or makes the call
// from the section `chaos_text`, which the filter allows. The wall clock and pthread_create are replaced as functions.
// Invariants: an error is one that the kernel documents for the call, and the call has had no effect. Errors after
// which an edge-triggered epoll(7) would owe no further event (EAGAIN) are never made up.
// The filter outlives execve, the handler does not. So processes with this library must not start other programs.

#ifndef __x86_64__
#error "tests/chaos/faults.c needs x86-64"
#endif
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

// The faults. tests/chaos/shim.lua has the same list.
enum { ACCEPT, SOCKET, CONNECT, RECV, SEND, OPEN, WRITE, SHORT, SENDFILE, EPOLL, DESCRIPTOR, THREAD, STORM, CLOCK, FAULTS };

// The control file. `rate` is in millionths of the calls; for STORM it is the number of signals a second to each
// thread, for CLOCK the offset of the wall clock in seconds.
struct control {
  int64_t rate[32];
  int64_t count[32];
};
static struct control *control;
static uint64_t seed;
static time_t begin_at; // monotonic seconds

// Makes a system call. The filter allows calls from this section.
long call6(long n, long a, long b, long c, long d, long e, long f);
__asm__(".pushsection chaos_text, \"ax\", @progbits\n"
        ".hidden call6\n.globl call6\n.type call6, @function\n"
        "call6: mov %rdi, %rax\n mov %rsi, %rdi\n mov %rdx, %rsi\n mov %rcx, %rdx\n mov %r8, %r10\n"
        "mov %r9, %r8\n mov 8(%rsp), %r9\n syscall\n ret\n.popsection");

static void counted(int fault) { __atomic_fetch_add(&control->count[fault], 1, __ATOMIC_RELAXED); }

// A generator for each thread (xorshift64*).
static uint64_t draw(void) {
  static uint64_t threads;
  static __thread uint64_t state;
  if (!state) state = (seed + __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED)) * 0x9E3779B97F4A7C15u | 1;
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 0x2545F4914F6CDD1Du >> 16;
}

// Whether a fault happens now. Not in the first CHAOS_GRACE seconds of the process, while it loads its program.
static int strikes(int fault) {
  int64_t rate = __atomic_load_n(&control->rate[fault], __ATOMIC_RELAXED);
  if (rate <= 0 || (int64_t)(draw() % 1000000) >= rate) return 0;
  struct timespec now;
  if (begin_at && (call6(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0, 0, 0) || now.tv_sec < begin_at)) return 0;
  begin_at = 0;
  counted(fault);
  return 1;
}

extern char __start_chaos_text[], __stop_chaos_text[];

static const int calls[] = {
  SYS_accept, SYS_accept4, SYS_socket, SYS_connect, SYS_recvfrom, SYS_recvmsg, SYS_readv, SYS_sendto, SYS_sendmsg,
  SYS_writev, SYS_write, SYS_pwrite64, SYS_openat, SYS_open, SYS_openat2, SYS_sendfile, SYS_epoll_ctl,
  SYS_epoll_create1, SYS_eventfd2, SYS_pipe2,
};

static int one_of(const int *errors, size_t count) { return -errors[draw() % count]; }
#define ONE_OF(...) one_of((const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static int is_file(int fd) {
  struct stat s;
  return call6(SYS_fstat, fd, (long)&s, 0, 0, 0, 0) == 0 && S_ISREG(s.st_mode);
}

// Returns a negative error for the call, or 0. May shorten a write to a file.
static int failure(int n, long *a) {
  switch (n) {
    case SYS_accept: case SYS_accept4:
      return strikes(ACCEPT) ? ONE_OF(EMFILE, ENFILE, ENOBUFS, ENOMEM, EINTR) : 0;
    case SYS_socket: return strikes(SOCKET) ? ONE_OF(EMFILE, ENFILE, ENOBUFS, ENOMEM) : 0;
    case SYS_connect: return strikes(CONNECT) ? ONE_OF(EADDRNOTAVAIL, ENETUNREACH, ECONNREFUSED) : 0;
    case SYS_recvfrom: case SYS_recvmsg: case SYS_readv:
      return strikes(RECV) ? ONE_OF(EINTR, EINTR, EINTR, ENOMEM, ENOBUFS) : 0;
    case SYS_sendto: case SYS_sendmsg:
      return strikes(SEND) ? ONE_OF(EINTR, EINTR, EINTR, ENOMEM, ENOBUFS) : 0;
    case SYS_write: case SYS_pwrite64: case SYS_writev:
      if (a[0] <= 2 || !is_file(a[0])) return 0;
      if (strikes(WRITE)) return ONE_OF(ENOSPC, EIO, EINTR, EDQUOT);
      if (n != SYS_writev && a[2] > 1 && strikes(SHORT)) a[2] = 1 + draw() % (a[2] - 1);
      return 0;
    case SYS_open: case SYS_openat: case SYS_openat2:
      return strikes(OPEN) ? ONE_OF(EMFILE, ENFILE, ENOMEM, EINTR) : 0;
    case SYS_sendfile: return strikes(SENDFILE) ? ONE_OF(EINTR, ENOMEM) : 0;
    case SYS_epoll_ctl: return a[1] == EPOLL_CTL_ADD && strikes(EPOLL) ? ONE_OF(ENOMEM, ENOSPC) : 0;
    case SYS_epoll_create1: case SYS_eventfd2: case SYS_pipe2:
      return strikes(DESCRIPTOR) ? ONE_OF(EMFILE, ENFILE, ENOMEM) : 0;
  }
  return 0;
}

static void on_trap(int number, siginfo_t *info, void *context) {
  (void)number;
  int before = errno;
  greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
  long a[6] = { r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9] };
  long result = failure(info->si_syscall, a);
  if (!result) result = call6(info->si_syscall, a[0], a[1], a[2], a[3], a[4], a[5]);
  r[REG_RAX] = result;
  errno = before;
}

// Installs the filter: a call of the list from outside of `chaos_text` raises SIGSYS.
static int install_filter(void) {
  enum { CALLS = sizeof calls / sizeof *calls };
  uint64_t first = (uintptr_t)__start_chaos_text, last = (uintptr_t)__stop_chaos_text;
  if (first >> 32 != last >> 32) return -1;
  struct sock_filter f[CALLS + 10];
  int i = 0;
  f[i++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (int c = 0; c < CALLS; c++)
    f[i++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[c], CALLS - c, 0);
  f[i++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  f[i++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4);
  f[i++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first >> 32, 0, 4);
  f[i++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer));
  f[i++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)first, 0, 2);
  f[i++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (uint32_t)last, 1, 0);
  f[i++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  f[i++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
  struct sock_fprog program = { i, f };
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

// SIGSYS must never be blocked: the kernel would end the process.
#define NEXT(name) static __typeof__(&name) next; if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
static const sigset_t *without_sigsys(const sigset_t *set, sigset_t *copy, int how) {
  if (!set || how == SIG_UNBLOCK) return set;
  *copy = *set;
  sigdelset(copy, SIGSYS);
  return copy;
}
int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
  NEXT(pthread_sigmask);
  sigset_t copy;
  return next(how, without_sigsys(set, &copy, how), old);
}
int sigprocmask(int how, const sigset_t *set, sigset_t *old) {
  NEXT(sigprocmask);
  sigset_t copy;
  return next(how, without_sigsys(set, &copy, how), old);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*f)(void *), void *arg) {
  NEXT(pthread_create);
  if (control && strikes(THREAD)) return EAGAIN;
  return next(thread, attr, f, arg);
}

// The wall clock.
int clock_gettime(clockid_t clock, struct timespec *t) {
  NEXT(clock_gettime);
  int result = next(clock, t);
  if (control && clock == CLOCK_REALTIME && !result && control->rate[CLOCK]) {
    t->tv_sec += control->rate[CLOCK];
    counted(CLOCK);
  }
  return result;
}
time_t time(time_t *out) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  if (out) *out = t.tv_sec;
  return t.tv_sec;
}
int gettimeofday(struct timeval *restrict out, void *restrict zone) {
  (void)zone;
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  out->tv_sec = t.tv_sec;
  out->tv_usec = t.tv_nsec / 1000;
  return 0;
}

// Sends SIGWINCH, whose handler does nothing, to all threads: their blocking calls return EINTR.
static void nothing(int number) { (void)number; }
static void *storm(void *folder) {
  DIR *threads = folder;
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGSYS);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  pid_t own = syscall(SYS_gettid);
  for (;;) {
    int64_t rate = control->rate[STORM];
    struct timespec pause = { 0, rate > 0 ? 1000000000 / rate : 20000000 };
    if (pause.tv_nsec > 999999999) pause.tv_nsec = 999999999;
    nanosleep(&pause, NULL);
    if (rate <= 0) continue;
    rewinddir(threads);
    for (struct dirent *one; (one = readdir(threads));) {
      int tid = atoi(one->d_name);
      if (tid > 0 && tid != own && !syscall(SYS_tgkill, getpid(), tid, SIGWINCH)) counted(STORM);
    }
  }
  return NULL;
}

// `lio --watch` starts the program in another process, which loads this library again.
static int is_supervisor(void) {
  char line[4096];
  int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  ssize_t n = read(fd, line, sizeof line - 1);
  close(fd);
  return n > 0 && memmem(line, n, "--watch", 7) != NULL;
}

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("CHAOS_CONTROL"), *text = getenv("CHAOS_SEED"), *grace = getenv("CHAOS_GRACE");
  if (!path || is_supervisor()) return;
  int fd = open(path, O_RDWR | O_CLOEXEC);
  struct control *map = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd < 0 || map == MAP_FAILED) {
    fprintf(stderr, "chaos: no control file at %s\n", path);
    _exit(3);
  }
  close(fd);
  seed = text ? strtoull(text, NULL, 10) : 1;
  struct timespec now;
  if (grace && !syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now)) begin_at = now.tv_sec + atoi(grace);
  struct sigaction trap = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART };
  struct sigaction wake = { .sa_handler = nothing };
  control = map;
  pthread_t thread;
  // The folder stays open, so that the number of descriptors is constant when the program begins.
  DIR *threads = opendir("/proc/self/task");
  if (!threads || sigaction(SIGSYS, &trap, NULL) || sigaction(SIGWINCH, &wake, NULL) ||
      pthread_create(&thread, NULL, storm, threads) || install_filter()) {
    perror("chaos: the filter of system calls cannot be installed");
    _exit(3);
  }
}
