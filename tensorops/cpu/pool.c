// The thread pool: tiles are claimed by an atomic counter, workers spin for a
// bounded time and then sleep on a futex; the caller works too and can finish
// alone. One job at a time: a caller that finds the pool busy runs its tiles by
// itself, so callers never wait for each other. Versions tried (dispatch of an
// empty job to 2 workers): endless spin 0.1 us but burns a busy machine; locked
// goroutines 11 us; this one 0.5 us.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "hived.h"
#if defined(__x86_64__)
#include <immintrin.h>
#define RELAX() _mm_pause()
static unsigned fp_enter(void) { unsigned s = _mm_getcsr(); _mm_setcsr(0x1F80); return s; }
static void fp_leave(unsigned s) { _mm_setcsr(s); }
#elif defined(__aarch64__)
#define RELAX() __asm__ volatile("yield")
static unsigned long fp_enter(void) { unsigned long s; __asm__ volatile("mrs %0, fpcr" : "=r"(s)); __asm__ volatile("msr fpcr, %0" ::"r"(0ul)); return s; }
static void fp_leave(unsigned long s) { __asm__ volatile("msr fpcr, %0" ::"r"(s)); }
#else
#define RELAX() ((void)0)
static int fp_enter(void) { return 0; }
static void fp_leave(int s) { (void)s; }
#endif
enum { SPIN = 2000, MAX_THREADS = 256 };

static struct {
  _Atomic int gen __attribute__((aligned(64)));    // number of the job
  _Atomic int sleeping, threads;                   // threads: wanted, the caller included
  _Atomic long claim __attribute__((aligned(64))); // high 32 bits job, low 32 next tile
  _Atomic int done __attribute__((aligned(64)));
  _Atomic(hv_fn) f; _Atomic(const void *) args; _Atomic long n;
  int made; pthread_t thread[MAX_THREADS];         // guarded by mu
} P = {.threads = 1};
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

static void futex(_Atomic int *p, int op, int v) { syscall(SYS_futex, p, op, v, 0, 0, 0); }

static void work(int g) {
  for (;;) {
    long c = atomic_load(&P.claim);
    hv_fn f = atomic_load(&P.f);
    const void *args = atomic_load(&P.args);
    long n = atomic_load(&P.n);
    if ((int)(c >> 32) != g || (int)c >= n) return;
    if (!atomic_compare_exchange_weak(&P.claim, &c, c + 1)) continue;
    f(args, (int)c);
    if (atomic_fetch_add(&P.done, 1) + 1 == n) futex(&P.done, FUTEX_WAKE_PRIVATE, 1);
  }
}

static void *worker(void *v) {
  long id = (long)v;
  int g = 0;
  fp_enter();
  for (;;) {
    for (int s = 0; atomic_load_explicit(&P.gen, memory_order_acquire) == g;) {
      if (++s < SPIN && id < atomic_load_explicit(&P.threads, memory_order_relaxed)) { RELAX(); continue; }
      atomic_fetch_add(&P.sleeping, 1);
      if (atomic_load(&P.gen) == g) futex(&P.gen, FUTEX_WAIT_PRIVATE, g);
      atomic_fetch_sub(&P.sleeping, 1);
    }
    g = atomic_load(&P.gen);
    if (id < atomic_load(&P.threads)) work(g);
  }
  return NULL;
}

int hv_threads(void) { return atomic_load(&P.threads); }

// hv_set_threads starts what is missing; it returns the number it reached.
int hv_set_threads(int n) {
  sigset_t all, old;
  n = n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
  pthread_mutex_lock(&mu);
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &old);   // signals belong to the Go runtime's threads
  while (P.made < n - 1) {
    pthread_t t;
    if (pthread_create(&t, NULL, worker, (void *)(long)(P.made + 1))) break;
    pthread_detach(t);   // workers never end
    P.thread[P.made++] = t;
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (n > P.made + 1) n = P.made + 1;
  atomic_store(&P.threads, n);
  pthread_mutex_unlock(&mu);
  return n;
}

long hv_worker_ns(void) {
  long ns = 0;
  pthread_mutex_lock(&mu);
  for (int i = 0; i < P.made; i++) {
    clockid_t c;
    struct timespec t;
    if (!pthread_getcpuclockid(P.thread[i], &c) && !clock_gettime(c, &t)) ns += t.tv_sec * 1000000000l + t.tv_nsec;
  }
  pthread_mutex_unlock(&mu);
  return ns;
}

static void publish(hv_fn f, const void *args, long n) {
  int g = (atomic_load(&P.gen) + 1) & 0x7FFFFFFF;
  atomic_store(&P.claim, -1l << 32 | 0x7FFFFFFF);   // no job: late workers of the last one find nothing
  atomic_store(&P.f, f); atomic_store(&P.args, args); atomic_store(&P.n, n);
  atomic_store(&P.done, 0);
  atomic_store(&P.claim, (long)g << 32);
  atomic_store(&P.gen, g);
  if (atomic_load(&P.sleeping)) futex(&P.gen, FUTEX_WAKE_PRIVATE, (int)HV_MIN(n - 1, MAX_THREADS) + P.made + 1 - atomic_load(&P.threads));
  work(g);
  for (int s = 0;;) {
    int d = atomic_load(&P.done);
    if (d == n) break;
    if (++s < SPIN) RELAX();
    else futex(&P.done, FUTEX_WAIT_PRIVATE, d);
  }
}

void hv_run(hv_fn f, const void *args, L tiles) {
  __auto_type s = fp_enter();
  hv_begin();
  if (tiles > 1 && atomic_load(&P.threads) > 1 && !pthread_mutex_trylock(&mu)) {
    publish(f, args, tiles);
    pthread_mutex_unlock(&mu);
  } else
    for (L i = 0; i < tiles; i++) f(args, i);
  hv_end();
  fp_leave(s);
}

// Scratch memory. A worker keeps its set of buffers; a caller has one from hv_begin to
// hv_end, since the Go scheduler moves callers over many threads, above all on a busy
// machine: what is kept are as many sets as there were callers at a time.
enum { SLOTS = 9 };
typedef struct set { struct set *next; struct { float *p; size_t n; } slot[SLOTS]; } set;
static set *idle;   // guarded by idle_mu
static pthread_mutex_t idle_mu = PTHREAD_MUTEX_INITIALIZER;
static __thread struct { set *mine; int depth; } scratch;

void hv_begin(void) { scratch.depth++; }
void hv_end(void) {
  if (--scratch.depth || !scratch.mine) return;
  pthread_mutex_lock(&idle_mu);
  scratch.mine->next = idle;
  idle = scratch.mine;
  pthread_mutex_unlock(&idle_mu);
  scratch.mine = NULL;
}

static set *take_set(void) {
  pthread_mutex_lock(&idle_mu);
  set *s = idle;
  if (s) idle = s->next;
  pthread_mutex_unlock(&idle_mu);
  if (!s && !(s = calloc(1, sizeof *s))) abort();
  return s;
}

float *hv_scratch(int slot, size_t floats) {
  if (!scratch.mine) scratch.mine = take_set();
  set *s = scratch.mine;
  if (s->slot[slot].n < floats) {
    free(s->slot[slot].p);
    size_t bytes = (floats * 4 + 4095) & ~(size_t)4095;
    s->slot[slot].p = aligned_alloc(64, bytes);
    if (!s->slot[slot].p) abort();
    s->slot[slot].n = bytes / 4;
  }
  return s->slot[slot].p;
}
const float *hv_zeros(void) {
  static const float z[4096 + 64] __attribute__((aligned(64)));
  return z;
}
