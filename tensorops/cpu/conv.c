// Entry points of the convolution; api.c says how kernels are run.
#if !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#endif
#include "api.h"
#include "hived.h"

enum { BUFFER = 16384 };   // floats of padded rows that a tile may take

// geometry reads the numbers of package tensorops. A 1x1 convolution without
// stride sees an image as one long row.
static hv_conv geometry(const long *g) {
  hv_conv c = {g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], g[8], g[9], g[10], g[11]};
  if (c.kh == 1 && c.kw == 1 && c.stride == 1 && c.pad == 0) {
    c.w *= c.h; c.ow = c.w;
    c.h = c.oh = 1;
  }
  return c;
}

// plan packs the weights and chooses how many of the rows a tile takes, when a row
// needs so many floats.
static void plan(hv_conv_args *a, hv_fn pack, L k, L n, L rows, L row) {
  a->part = hv_scratch(5, a->g.groups * k * (n + hv_active()->lanes));
  hv_run(pack, a, a->g.groups);
  a->rows = BUFFER / row;
  if (a->g.b < 4 * hv_threads()) a->rows = HV_MIN(a->rows, rows * a->g.b / (4 * hv_threads()));
  a->rows = a->rows < 1 ? 1 : HV_MIN(a->rows, rows);
  a->parts = (rows + a->rows - 1) / a->rows;
}

void hv_conv_fwd(const long *geo, const float *x, const float *w, const float *bias, float *y, int relu) {
  hv_conv_args a = {.g = geometry(geo), .x = x, .w = w, .bias = bias, .y = y, .relu = relu};
  hv_begin();
  plan(&a, hv_active()->conv_pack, a.g.kh * a.g.kw * (a.g.c / a.g.groups), a.g.o / a.g.groups, a.g.oh, (a.g.w + 2 * a.g.pad) * a.g.c * a.g.stride);
  hv_run(hv_active()->conv_fwd, &a, a.g.b * a.parts);
  hv_end();
}

void hv_conv_dx(const long *geo, const float *dy, const float *w, float *dx) {
  hv_conv_args a = {.g = geometry(geo), .dy = dy, .w = w, .y = dx};
  hv_begin();
  plan(&a, hv_active()->conv_pack_back, a.g.kh * a.g.kw * (a.g.o / a.g.groups), a.g.c / a.g.groups, a.g.h, (a.g.ow + 2) * a.g.o);
  hv_run(hv_active()->conv_dx, &a, a.g.b * a.parts);
  hv_end();
}

// hv_conv_dw adds into dw. K is the number of positions: its blocks are computed
// side by side, some for each thread at a time, and added in order.
void hv_conv_dw(const long *geo, const float *dy, const float *x, float *dw) {
  hv_conv_args a = {.g = geometry(geo), .dy = dy, .x = x, .y = dw};
  hv_fn f = hv_active()->conv_dw;
  L k = a.g.b * a.g.oh * a.g.ow, kc = hv_kc(k), blocks = (k + kc - 1) / kc;
  L size = a.g.o * a.g.kh * a.g.kw * (a.g.c / a.g.groups), wave = 4 * hv_threads();
  if (hv_threads() == 1) { hv_run(f, &a, blocks); return; }   // tiles run in order and add themselves
  hv_begin();
  a.part = hv_scratch(6, HV_MIN(wave, blocks) * size);
  for (; a.first < blocks; a.first += wave) {
    L n = HV_MIN(wave, blocks - a.first);
    hv_run(f, &a, n);
    for (L b = 0; b < n; b++) for (L i = 0; i < size; i++) dw[i] += a.part[b * size + i];
  }
  hv_end();
}
