// A bootstrap particle filter for the constant-rate birth-death model, written by hand: the
// yardstick for what a compiler can reach on one core. Usage: crbd_filter PARTICLES SEED RHO < rows,
// where each row is "parent_age age is_leaf", in preorder. Prints log Z and the seconds it took.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t s[4];
static inline uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
static inline uint64_t next(void) {  // xoshiro256++
  uint64_t result = rotl(s[0] + s[3], 23) + s[0], t = s[1] << 17;
  s[2] ^= s[0]; s[3] ^= s[1]; s[1] ^= s[2]; s[0] ^= s[3]; s[2] ^= t; s[3] = rotl(s[3], 45);
  return result;
}
static inline double uniform(void) { return ((next() >> 12) + 0.5) * 0x1p-52; }
static inline double exponential(double rate) { return -log(uniform()) / rate; }

static double rho;

static int undetected(double start, double lambda, double mu) {
  double t = start - exponential(lambda + mu);
  if (t < 0) return !(uniform() < rho);
  if (uniform() < mu / (lambda + mu)) return 1;
  return undetected(t, lambda, mu) && undetected(t, lambda, mu);
}

static double side(double start, double stop, double lambda, double mu) {
  double weight = 0;
  for (;;) {
    start -= exponential(lambda);
    if (start < stop) return weight;
    if (!undetected(start, lambda, mu)) return -INFINITY;
    weight += log(2.0);
  }
}

int main(int argc, char** argv) {
  long n = argc > 1 ? atol(argv[1]) : 10000;
  uint64_t seed = argc > 2 ? strtoull(argv[2], 0, 10) : 1;
  rho = argc > 3 ? atof(argv[3]) : 1.0;
  for (int i = 0; i < 4; ++i) {
    uint64_t z = (seed += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    s[i] = z ^ (z >> 31);
  }
  double parent[4096], age[4096];
  int leaf[4096], branches = 0, leaves = 0;
  while (scanf("%lf %lf %d", &parent[branches], &age[branches], &leaf[branches]) == 3) {
    leaves += leaf[branches];
    ++branches;
  }
  struct timespec begin, end;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  double *state = malloc(2 * n * sizeof(double)), *other = malloc(2 * n * sizeof(double));
  double* w = malloc(n * sizeof(double));
  for (long i = 0; i < n; ++i) {
    state[2 * i] = exponential(1.0);
    state[2 * i + 1] = exponential(1.0) * 0.5;
  }
  double z = (leaves - 1) * log(2.0) - lgamma(leaves + 1.0);
  for (int b = 0; b < branches; ++b) {
    double top = -INFINITY;
    for (long i = 0; i < n; ++i) {
      double lambda = state[2 * i], mu = state[2 * i + 1];
      w[i] = (leaf[b] ? log(rho) : log(lambda)) - mu * (parent[b] - age[b]) +
             side(parent[b], age[b], lambda, mu);
      if (w[i] > top) top = w[i];
    }
    double total = 0;
    for (long i = 0; i < n; ++i) total += w[i] = exp(w[i] - top);
    z += top + log(total / n);
    double u = uniform(), sum = 0;
    long child = 0;
    for (long i = 0; i < n; ++i) {
      sum += w[i];
      while (child < n && (child + u) * total < sum * n) {
        memcpy(other + 2 * child, state + 2 * i, 2 * sizeof(double));
        ++child;
      }
    }
    double* swap = state; state = other; other = swap;
  }
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  printf("%.6f %.6f\n", z, end.tv_sec - begin.tv_sec + (end.tv_nsec - begin.tv_nsec) * 1e-9);
  return 0;
}
