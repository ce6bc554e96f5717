// Convolution over NHWC images as products without packing (direct.h): patches are
// read from image rows copied between zeros. See conv.go for the plain loops that
// these equal: chains over (kh, kw, c) of the forward, (kh, kw, o) of the input's
// and positions of the weights' gradient, in blocks of K as in gemm.h.

// copy_rows copies rows [r0, r1) and columns [c0, c1) of image x [h, w, ch] to d;
// what lies outside is 0.
static void copy_rows(float *d, const float *x, L h, L w, L ch, L r0, L r1, L c0, L c1) {
  L a = c0 < 0 ? -c0 : 0, e = HV_MIN(c1, w), width = (c1 - c0) * ch;
  for (L r = r0; r < r1; r++, d += width) {
    if (r < 0 || r >= h || e <= c0 + a) { memset(d, 0, width * 4); continue; }
    L at = (e - c0) * ch;
    memset(d, 0, a * ch * 4);
    memcpy(d + a * ch, x + (r * w + c0 + a) * ch, at * 4 - a * ch * 4);
    memset(d + at, 0, (width - at) * 4);
  }
}

// seg_list holds the depth of a product, cut at blocks of K: segments of block i
// are [start[i], start[i+1]).
typedef struct { hv_seg *seg; L *start, n, kc, blocks; } seg_list;
FI seg_list new_segs(L k, L most) {
  seg_list l = {.kc = hv_kc(k)};
  l.blocks = (k + l.kc - 1) / l.kc;
  l.start = (L *)hv_scratch(3, 2 * (l.blocks + 1) + 6 * (most + l.blocks));
  l.seg = (hv_seg *)(l.start + l.blocks + 1);
  memset(l.start, 0, (l.blocks + 1) * sizeof(L));
  return l;
}
// add_seg appends depth [p, p+n) whose A starts at a; p ascends from call to call.
FI void add_seg(seg_list *l, L p, L n, L a) {
  while (n > 0) {
    L i = p / l->kc, m = HV_MIN(n, (i + 1) * l->kc - p);
    l->seg[l->n++] = (hv_seg){a, p, m};
    for (L j = i + 1; j <= l->blocks; j++) l->start[j] = l->n;
    p += m; n -= m; a += m;
  }
}

// convolve multiplies m lanes with all panels of n columns, block i of K = k.
FI void convolve(const seg_list *l, L i, L m, L n, L k, const float *a, L als, const float *panels, float *c, L ldc) {
  for (L j = 0, w; j < n; j += w) {
    w = panel_vecs(n - j) * VL;
    hv_direct d = {l->seg + l->start[i], l->start[i + 1] - l->start[i], als, 1, w, w};
    direct(&d, m, n - j, a, panels + j * k, c + j, ldc, i > 0);
  }
}

#include "depthwise.h"

// k_conv_pack lays the weights of group t out in panels for the forward: row
// (kh, kw, c) of a panel holds its outputs, then zeros.
static void k_conv_pack(const void *v, L t) {
  const hv_conv_args *g = v;
  if (by_channel(&g->g)) { tap_weights(g, t); return; }
  L n = g->g.o / g->g.groups, k = g->g.kh * g->g.kw * (g->g.c / g->g.groups);
  panels_of_rows(n, k, g->w + t * n * k, k, g->part + t * k * (n + VL));
}

// k_conv_pack_back does so for the gradient of the input: row (kh, kw, o), columns c.
static void k_conv_pack_back(const void *v, L t) {
  const hv_conv_args *g = v;
  if (by_channel(&g->g)) { tap_weights(g, t); return; }
  L n = g->g.c / g->g.groups, og = g->g.o / g->g.groups, taps = g->g.kh * g->g.kw, k = taps * og;
  const float *src = g->w + t * og * taps * n;
  float *d = g->part + t * k * (n + VL);
  for (L j = 0, w; j < n; j += w, d += k * w) {
    w = panel_vecs(n - j) * VL;
    L m = HV_MIN(w, n - j);
    for (L p = 0; p < k; p++) {
      memcpy(d + p * w, src + (p % og * taps + p / og) * n + j, m * 4);
      memset(d + p * w + m, 0, (w - m) * 4);
    }
  }
}

static void k_conv_fwd(const void *v, L t) {
  const hv_conv_args *a = v;
  const hv_conv *g = &a->g;
  L im = t / a->parts, y0 = t % a->parts * a->rows, y1 = HV_MIN(g->oh, y0 + a->rows);
  L C = g->c, cg = C / g->groups, og = g->o / g->groups, k = g->kh * g->kw * cg, wide = (g->w + 2 * g->pad) * C;
  const float *buf = a->x + (im * g->h + y0 * g->stride) * g->w * C;
  if (g->pad || (by_channel(g) && C % VL)) {
    L rows = (y1 - 1 - y0) * g->stride + g->kh, r0 = y0 * g->stride - g->pad;
    float *d = hv_scratch(0, rows * wide + VL);
    copy_rows(d, a->x + im * g->h * g->w * C, g->h, g->w, C, r0, r0 + rows, -g->pad, g->w + g->pad);
    buf = d;
  }
  float *out = a->y + (im * g->oh + y0) * g->ow * g->o;
  if (by_channel(g)) {
    tap_list l = new_taps(g);
    for (L e = 0; e < k; e++) add_tap(&l, e, e / g->kw * wide + e % g->kw * C);
    for (L y = y0; y < y1; y++) tap_row(&l, g->ow, C, buf + (y - y0) * g->stride * wide, g->stride * C, a->part, out + (y - y0) * g->ow * C, C);
    if (a->bias) bias_rows((y1 - y0) * g->ow, C, out, C, a->bias, a->relu);
    return;
  }
  seg_list l = new_segs(k, g->kh * g->kw);
  for (L e = 0; e < g->kh; e++)
    if (g->groups == 1) add_seg(&l, e * g->kw * C, g->kw * C, e * wide);
    else for (L f = 0; f < g->kw; f++) add_seg(&l, (e * g->kw + f) * cg, cg, e * wide + f * C);
  for (L q = 0; q < g->groups; q++)
    for (L i = 0; i < l.blocks; i++)
      for (L y = y0; y < y1; y++)
        convolve(&l, i, g->ow, og, k, buf + q * cg + (y - y0) * g->stride * wide, g->stride * C, a->part + q * k * (og + VL), out + (y - y0) * g->ow * g->o + q * og, g->o);
  if (a->bias) bias_rows((y1 - y0) * g->ow, g->o, out, g->o, a->bias, a->relu);
}

// k_conv_dx writes input rows of tile t. Rows and columns that leave the same rest
// by the stride meet the same taps, at outputs side by side.
static void k_conv_dx(const void *v, L t) {
  const hv_conv_args *a = v;
  const hv_conv *g = &a->g;
  L im = t / a->parts, y0 = t % a->parts * a->rows, y1 = HV_MIN(g->h, y0 + a->rows), s = g->stride;
  L C = g->c, cg = C / g->groups, og = g->o / g->groups, k = g->kh * g->kw * og;
  L r0 = hv_floor(y0 + g->pad - g->kh + 1, s), r1 = hv_floor(y1 - 1 + g->pad, s) + 1;
  L c0 = hv_floor(g->pad - g->kw + 1, s), c1 = hv_floor(g->w - 1 + g->pad, s) + 1, wide = (c1 - c0) * g->o;
  float *buf = hv_scratch(0, (r1 - r0) * wide + VL);
  copy_rows(buf, a->dy + im * g->oh * g->ow * g->o, g->oh, g->ow, g->o, r0, r1, c0, c1);
  for (L ry = 0; ry < s; ry++)
    for (L rx = 0; rx < HV_MIN(s, g->w); rx++) {
      if (by_channel(g)) {
        tap_list l = new_taps(g);
        for (L e = 0; e < k; e++) {
          L u = ry + g->pad - e / g->kw, w = rx + g->pad - e % g->kw;
          if (u % s == 0 && w % s == 0) add_tap(&l, e, (u / s - r0) * wide + (w / s - c0) * C);
        }
        for (L y = y0 + (ry - y0 % s + s) % s; y < y1; y += s)
          tap_row(&l, (g->w - rx + s - 1) / s, C, buf + y / s * wide, C, a->part, a->y + ((im * g->h + y) * g->w + rx) * C, s * C);
        continue;
      }
      seg_list l = new_segs(k, g->kh * g->kw);
      for (L e = 0; e < g->kh; e++)
        for (L f = 0; f < g->kw; f++)
          if ((ry + g->pad - e) % s == 0 && (rx + g->pad - f) % s == 0)
            add_seg(&l, (e * g->kw + f) * og, og, ((ry + g->pad - e) / s - r0) * wide + ((rx + g->pad - f) / s - c0) * g->o);
      for (L q = 0; q < g->groups; q++)
        for (L i = 0; i < l.blocks; i++)
          for (L y = y0 + (ry - y0 % s + s) % s; y < y1; y += s)
            convolve(&l, i, (g->w - rx + s - 1) / s, cg, k, buf + q * og + y / s * wide, g->o, a->part + q * k * (cg + VL), a->y + ((im * g->h + y) * g->w + rx) * C + q * cg, s * C);
    }
}

// k_conv_dw multiplies block t of the positions and adds it to the gradient, or
// stores it in part.
static void k_conv_dw(const void *v, L t) {
  const hv_conv_args *a = v;
  const hv_conv *g = &a->g;
  L C = g->c, cg = C / g->groups, og = g->o / g->groups, k = g->kh * g->kw * cg, area = g->oh * g->ow, s = g->stride;
  L all = g->b * area, kc = hv_kc(all), p0 = (a->first + t) * kc, p1 = HV_MIN(all, p0 + kc), wide = (g->w + 2 * g->pad) * C;
  L images = (p1 - 1) / area - p0 / area + 1;
  float *buf = hv_scratch(0, ((p1 - p0 + 2 * images * g->ow) / g->ow * s + images * g->kh) * wide + VMAX * VL), *d = buf;
  hv_seg *seg = (hv_seg *)hv_scratch(3, 6 * ((p1 - p0) / g->ow + 2 * images + 2));
  L n = 0;
  for (L p = p0; p < p1;) {   // one image at a time
    L im = p / area, e = HV_MIN(p1, (im + 1) * area) - im * area, q = p - im * area, y0 = q / g->ow, y1 = (e - 1) / g->ow + 1;
    L rows = (y1 - 1 - y0) * s + g->kh, r0 = y0 * s - g->pad;
    copy_rows(d, a->x + im * g->h * g->w * C, g->h, g->w, C, r0, r0 + rows, -g->pad, g->w + g->pad);
    for (L x; q < e; q += x) {
      x = HV_MIN(g->ow - q % g->ow, e - q);
      seg[n++] = (hv_seg){(im * area + q) * g->o, d - buf + (q / g->ow - y0) * s * wide + q % g->ow * s * C, x};
    }
    d += rows * wide;
    p = im * area + e;
  }
  memset(d, 0, VMAX * VL * 4);
  hv_direct one = {seg, n, 1, g->o, s * C, 1};
  float *out = a->part ? a->part + t * g->o * k : a->y;
  if (by_channel(g)) {
    for (L r = 0; r < k; r++) tap_grad(&one, C, a->dy, buf + r / g->kw * wide + r % g->kw * C, out + r, k, !a->part);
    return;
  }
  L runs = g->groups == 1 ? g->kh : g->kh * g->kw, len = g->groups == 1 ? g->kw * C : cg;   // contiguous columns
  for (L q = 0; q < g->groups; q++)
    for (L r = 0; r < runs; r++) {
      const float *b = buf + (g->groups == 1 ? r * wide : r / g->kw * wide + r % g->kw * C + q * cg);
      for (L j = 0; j < len; j += panel_vecs(len - j) * VL)
        direct(&one, og, len - j, a->dy + q * og, b + j, out + q * og * k + r * len + j, k, !a->part);
    }
}
