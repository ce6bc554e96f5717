// What Go calls: one function an op, each over raw arrays, run over the pool.
#ifndef HIVED_API_H
#define HIVED_API_H
#include <stdint.h>
int hv_set_isa(const char *name);   // 0: done, -1: not on this machine
const char *hv_isa(int i);          // i-th usable set, best first; NULL at the end
const char *hv_current(void);
int hv_set_threads(int n);
int hv_threads(void);
long hv_worker_ns(void);            // processor time of the pool's threads
void hv_gemm(long m, long n, long k, const float *a, long als, long ads, const float *b, long bls, long bds, float *c, long ldc, int add, const float *bias, int relu, float *gelu, const float *slope);
int hv_has_bf16(void);              // 1: the chosen set multiplies bfloat16 by itself
void hv_set_tiles(int on);           // AMX tiles may be used, for tests
void hv_gemm_bf16(long m, long n, long k, const float *a, long als, long ads, const float *b, long bls, long bds, float *c, long ldc, int add, const float *bias, int relu, float *gelu, const float *slope);
void hv_conv_fwd(const long *g, const float *x, const float *w, const float *bias, float *y, int relu);
void hv_conv_dx(const long *g, const float *dy, const float *w, float *dx);
void hv_conv_dw(const long *g, const float *dy, const float *x, float *dw);
void hv_attn_fwd(long b, long t, long h, long d, int full, int bf16, const float *qkv, float *y, float *stats);
void hv_attn_bwd(long b, long t, long h, long d, int full, int bf16, const float *qkv, const float *y, const float *stats, const float *dy, float *dqkv);
void hv_norm_fwd(long n, long c, float eps, const float *x, const float *res, const float *g, const float *b, float *y, float *sum, float *stats);
void hv_norm_bwd(long n, long c, const float *sum, const float *stats, const float *g, const float *dy, const float *dsum, float *dx, float *dg, float *db, float *part);
double hv_ce(long n, long v, const float *x, const int32_t *label, float *dx, double *loss);
void hv_gelu_fwd(long n, const float *x, float *y);
void hv_gelu_bwd(long n, const float *x, const float *dy, float *dx);
void hv_swiglu_fwd(long n, long c, const float *x, float *y);
void hv_swiglu_bwd(long n, long c, const float *x, const float *dy, float *dx);
void hv_rope(long n, long t, long row, long heads, long d, const float *x, const float *cos, const float *sin, float *y, float sign);
void hv_add(long n, const float *x, const float *y, float *z);
void hv_relu_mask(long n, const float *dy, const float *y, float *dx);
void hv_pool_fwd(long b, long h, long w, long c, const float *x, float *y, int relu);
void hv_pool_bwd(long b, long h, long w, long c, const float *x, const float *y, const float *dy, float *dx, int relu);
void hv_avg_fwd(const long *p, const float *x, float *y);
void hv_avg_bwd(const long *p, const float *dy, float *dx);
void hv_embed_fwd(long n, long t, long c, const int32_t *id, const float *table, const float *pos, float *y);
void hv_embed_bwd(long n, long t, long c, const int32_t *id, const float *dy, float *dtable, float *dpos);
void hv_gn_fwd(long b, long p, long c, long groups, double eps, int relu, const float *x, const float *gain, const float *shift, float *y, float *stats);
void hv_gn_bwd(long b, long p, long c, long groups, int relu, const float *x, const float *y, const float *gain, const float *stats, const float *dy, float *dx, float *work);
void hv_bn_stats(long n, long c, const float *x, float *stats, double *m2);
void hv_bn_apply(long n, long c, const float *x, const float *res, const float *gain, const float *shift, const float *stats, float *y, int relu);
void hv_bn_sums(long n, long c, const float *x, const float *y, const float *stats, float *dy, float *work);
void hv_bn_input(long n, long c, const float *x, const float *gain, const float *stats, const float *dy, const float *work, float *dx);
void hv_cols(long n, long c, const float *x, float *y);
void hv_adamw(long n, float *p, float *m, float *v, const float *g, const float *coef);
void hv_sgd(long n, float *p, float *m, const float *g, const float *coef);
void hv_combine(long n, float a, const float *x, float b, const float *y, float *z);
double hv_peak(long n);
double hv_sumsq(long n, const float *x, double *part);
#endif
