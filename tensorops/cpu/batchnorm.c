// Entry points of the batch norm; api.c says how kernels are run.
#if !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#endif
#include "api.h"
#include "hived.h"

static L tiles(L n) { return (n + HV_ROWS - 1) / HV_ROWS; }

// hv_bn_stats joins the chunks' moments ascending in double.
void hv_bn_stats(long n, long c, const float *x, float *stats, double *m2) {
  hv_begin();
  hv_bn_args g = {.n = n, .c = c, .x = x, .part = hv_scratch(7, tiles(n) * 2 * c)};
  double *mean = (double *)hv_scratch(8, 2 * c);
  hv_run(hv_active()->bn_stats, &g, tiles(n));
  for (L j = 0; j < c; j++) mean[j] = m2[j] = 0;
  for (L t = 0; t < tiles(n); t++) {
    L r0 = t * HV_ROWS, r1 = HV_MIN(n, r0 + HV_ROWS);
    double share = (double)(r1 - r0) / (double)r1, both = (double)r0 * share;
    const float *p = g.part + t * 2 * c;
    for (L j = 0; j < c; j++) {
      double d = p[j] - mean[j];
      mean[j] = mean[j] + d * share;
      m2[j] = m2[j] + (p[c + j] + d * d * both);
    }
  }
  for (L j = 0; j < c; j++) stats[j] = mean[j];
  hv_end();
}
void hv_bn_apply(long n, long c, const float *x, const float *res, const float *gain, const float *shift, const float *stats, float *y, int relu) {
  hv_bn_args g = {.n = n, .c = c, .x = x, .res = res, .gain = gain, .shift = shift, .stats = stats, .y = y, .relu = relu};
  hv_run(hv_active()->bn_apply, &g, tiles(n));
}
void hv_bn_sums(long n, long c, const float *x, const float *y, const float *stats, float *dy, float *work) {
  hv_bn_args g = {.n = n, .c = c, .x = x, .y = (float *)y, .stats = stats, .dy = dy, .part = work + 2 * c, .relu = y != NULL};
  hv_run(hv_active()->bn_sums, &g, tiles(n));
  memset(work, 0, 2 * c * 4);
  for (L t = 0; t < tiles(n); t++)
    for (L j = 0; j < 2 * c; j++) work[j] += g.part[t * 2 * c + j];
}
void hv_bn_input(long n, long c, const float *x, const float *gain, const float *stats, const float *dy, const float *work, float *dx) {
  hv_bn_args g = {.n = n, .c = c, .x = x, .gain = gain, .stats = stats, .dy = (float *)dy, .work = work, .dx = dx};
  hv_run(hv_active()->bn_input, &g, tiles(n));
}
