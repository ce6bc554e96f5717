// The gate of silu; see the reference in ../swiglu.go for the plain
// loops that these equal.

FI vf silu(const hv_ew_args *g, vf x, vf dy) {
  (void)g; (void)dy;
  return x / (splat(1.0f) + vexp(-x));
}
FI vf dsilu(const hv_ew_args *g, vf x, vf dy) {
  (void)g;
  vf one = splat(1.0f), s = one / (one + vexp(-x));
  return dy * (s * vfma(x, one - s, one));
}

static void k_swiglu_fwd(const void *v, L t) {
  const hv_rows_args *g = v;
  L C = g->c;
  for (L r = t * HV_ROWS; r < HV_MIN(g->n, (t + 1) * HV_ROWS); r++) {
    const float *a = g->x + 2 * r * C, *b = a + C;
    float *y = g->y + r * C, u[32], w[32];
    L c = 0;
    for (; c + VL <= C; c += VL) st(y + c, silu(NULL, ld(a + c), (vf){0}) * ld(b + c));
    if (c == C) continue;
    tail(u, a + c, C - c, 0); tail(w, b + c, C - c, 0);
    st(w, silu(NULL, ld(u), (vf){0}) * ld(w));
    memcpy(y + c, w, (C - c) * 4);
  }
}

static void k_swiglu_bwd(const void *v, L t) {
  const hv_rows_args *g = v;
  L C = g->c;
  for (L r = t * HV_ROWS; r < HV_MIN(g->n, (t + 1) * HV_ROWS); r++) {
    const float *a = g->x + 2 * r * C, *b = a + C, *dy = g->dy + r * C;
    float *da = g->y + 2 * r * C, *db = da + C, u[32], w[32], e[32];
    L c = 0;
    for (; c + VL <= C; c += VL) {
      vf x = ld(a + c), d = ld(dy + c);
      st(da + c, dsilu(NULL, x, d * ld(b + c)));
      st(db + c, d * silu(NULL, x, d));
    }
    if (c == C) continue;
    tail(u, a + c, C - c, 0); tail(w, b + c, C - c, 0); tail(e, dy + c, C - c, 0);
    st(w, dsilu(NULL, ld(u), ld(e) * ld(w)));
    st(e, ld(e) * silu(NULL, ld(u), ld(e)));
    memcpy(da + c, w, (C - c) * 4); memcpy(db + c, e, (C - c) * 4);
  }
}
