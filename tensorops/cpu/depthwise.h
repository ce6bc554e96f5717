// Depthwise convolution: each channel has a filter of its own. Channels lie side by
// side in vectors, each element is the chain over taps or positions that conv.h makes.

// by_channel says whether a convolution is one, of taps that fill at most a block of K.
FI int by_channel(const hv_conv *g) { return g->groups == g->c && g->o == g->c && g->kh * g->kw <= HV_KC; }

// tap_list holds the taps that count for a row of results: where they read, relative to
// the first, and which they are.
typedef struct { L n, *at, *tap; } tap_list;
FI tap_list new_taps(const hv_conv *g) {
  L most = g->kh * g->kw, *at = (L *)hv_scratch(3, 4 * most);
  return (tap_list){0, at, at + most};
}
FI void add_tap(tap_list *l, L tap, L at) { l->tap[l->n] = tap; l->at[l->n++] = at; }

// tap_weights lays the filter of channel t out by taps.
FI void tap_weights(const hv_conv_args *g, L t) {
  L k = g->g.kh * g->g.kw;
  for (L p = 0; p < k; p++) g->part[p * g->g.c + t] = g->w[t * k + p];
}

// tap_row writes n results of C channels, ldy apart, from positions lda apart. Vectors
// may be read, not written, beyond C.
static void tap_row(const tap_list *l, L n, L C, const float *x, L ldx, const float *w, float *y, L ldy) {
  for (L c = 0; c < C; c += VL) {
    L some = HV_MIN(VL, C - c);
    for (L i = 0; i < n; i += 4) {
      L m = HV_MIN(4, n - i);
      vf s[4] = {{0}, {0}, {0}, {0}};
      const float *q = x + i * ldx + c;
      if (m == 4)
        for (L t = 0; t < l->n; t++) {
          vf u = ld(w + l->tap[t] * C + c);
          const float *a = q + l->at[t];
          for (int e = 0; e < 4; e++) s[e] = vfma(ld(a + e * ldx), u, s[e]);
        }
      else
        for (L e = 0; e < m; e++)
          for (L t = 0; t < l->n; t++) s[e] = vfma(ld(q + e * ldx + l->at[t]), ld(w + l->tap[t] * C + c), s[e]);
      for (L e = 0; e < m; e++) {
        float *to = y + (i + e) * ldy + c;
        if (some == VL) st(to, s[e]);
        else memcpy(to, &s[e], some * 4);
      }
    }
  }
}

// tap_grad adds, for one tap, the chains over a block of positions to out[c*ldo].
static void tap_grad(const hv_direct *d, L C, const float *dy, const float *x, float *out, L ldo, int add) {
  for (L c = 0; c < C; c += 4 * VL) {
    vf s[4] = {{0}, {0}, {0}, {0}};
    L whole = HV_MIN(4, (C - c) / VL), from = c + whole * VL, end = HV_MIN(C, c + 4 * VL);
    float t[4 * VB / 4];
    for (const hv_seg *g = d->seg, *e = g + d->segs; g < e; g++) {
      const float *p = dy + g->a + c, *q = x + g->b + c;
      if (whole == 4) for (L n = g->n; n > 0; n--, p += d->ads, q += d->bds) for (int i = 0; i < 4; i++) s[i] = vfma(ld(p + i * VL), ld(q + i * VL), s[i]);
      else for (L n = g->n; n > 0; n--, p += d->ads, q += d->bds) for (L i = 0; i < whole; i++) s[i] = vfma(ld(p + i * VL), ld(q + i * VL), s[i]);
    }
    for (int i = 0; i < 4; i++) st(t + i * VL, s[i]);
    for (L j = from; j < end; j++) {   // channels that fill no vector
      float u = 0;
      for (const hv_seg *g = d->seg, *e = g + d->segs; g < e; g++)
        for (L n = 0; n < g->n; n++) u = vfma(splat(dy[g->a + n * d->ads + j]), splat(x[g->b + n * d->bds + j]), splat(u))[0];
      t[j - c] = u;
    }
    for (L j = c; j < end; j++) out[j * ldo] = add ? out[j * ldo] + t[j - c] : t[j - c];
  }
}
