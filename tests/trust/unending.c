// Programs that resist their end, for jobs of tests. Each makes at most LIMIT processes, by the limit
// of the account, or by a counter in shared memory if that limit does not apply (root).
//   unending KIND LIMIT      its first process exits with 3 after it has printed "up"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int *made;
static int limit;

static void pause_us(unsigned us) { usleep(us); }

static int may_make(void) { return atomic_fetch_add(made, 1) < limit; }

static void wait_for_ever(void) {
  for (;;) pause();
}

// Every process makes others as fast as it can, each in its own session; killed processes are replaced.
static void bomb(void) {
  signal(SIGCHLD, SIG_IGN);
  for (int tries = 0; tries < 200000; tries++) {
    pid_t pid = fork();
    if (pid == 0) {
      atomic_fetch_add(made, 1);
      setsid();
    } else if (pid < 0) {
      pause_us(1000);
    }
  }
  wait_for_ever();
}

// Each process makes the next process and ends, so a scan of processes always comes too late.
static void hop(int hops) {
  signal(SIGCHLD, SIG_IGN);
  for (int i = 0; i < hops; i++) {
    if (fork() > 0) _exit(0);
    setsid();
    pause_us(100);
  }
}

__attribute__((noinline)) static void pass_by(void) {
  if (vfork() == 0) {
    execl("/bin/true", "true", (char *)NULL);
    _exit(0);
  }
}

static void storm(void) {
  signal(SIGCHLD, SIG_IGN);
  while (may_make()) pass_by();
  wait_for_ever();
}

static void *sleeper(void *unused) {
  (void)unused;
  wait_for_ever();
  return NULL;
}

static void threads(void) {
  pthread_t thread;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 65536);
  while (may_make() && pthread_create(&thread, &small, sleeper, NULL) == 0) {}
  wait_for_ever();
}

// A traced child, whose state only its tracer can read: its parent, which is stopped itself.
static void traced(void) {
  pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    wait_for_ever();
  }
  int status;
  waitpid(child, &status, 0);
  raise(SIGSTOP);
  wait_for_ever();
}

static void run(const char *kind) {
  if (!strcmp(kind, "bomb")) bomb();
  if (!strcmp(kind, "hop")) hop(2000);
  if (!strcmp(kind, "storm")) storm();
  if (!strcmp(kind, "threads")) threads();
  if (!strcmp(kind, "traced")) traced();
  if (!strcmp(kind, "stopped")) raise(SIGSTOP);
  wait_for_ever();
}

static void defy(void) {
  const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU};
  for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) signal(numbers[i], SIG_IGN);
}

// Detach as a daemon does: two forks, a new session, and no original parent.
static void detach(const char *kind) {
  // If no further process is allowed, this process continues and ends as usual.
  if (fork() != 0) return;
  setsid();
  if (fork() != 0) _exit(0);
  defy();
  run(kind);
  _exit(0);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  limit = atoi(argv[2]);
  const struct rlimit most = {limit, limit};
  if (setrlimit(RLIMIT_NPROC, &most)) return 2;
  made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return 2;
  detach(argv[1]);
  // Time to grow; on a core shared with the bomb the pause takes longer.
  pause_us(!strcmp(argv[1], "bomb") ? 300000 : 20000);
  const int clings = !strcmp(argv[1], "cling");
  if (clings) defy();
  puts("up");
  fflush(stdout);
  if (clings) wait_for_ever();
  return 3;
}
