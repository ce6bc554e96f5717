// What a product does to its result once that is complete: bias, relu, gelu and
// its slope, whose plain loops are in ../gelu.go.

static void bias_rows(L m, L n, float *c, L ldc, const float *bias, int relu) {
  for (L i = 0; i < m; i++, c += ldc) {
    L j = 0;
    for (; j + VL <= n; j += VL) {
      vf v = ld(c + j) + ld(bias + j);
      if (relu) v = vmax(v, (vf){0});
      st(c + j, v);
    }
    for (; j < n; j++) { float v = c[j] + bias[j]; c[j] = relu ? (v > 0 ? v : 0) : v; }
  }
}

#define GELU0 1.5957691216f
#define GELU1 0.0713548163f
#define GELU3 0.2140644489f
FI vf gelu(const hv_ew_args *g, vf x, vf dy) {
  (void)g; (void)dy;
  vf p = vfma(x * x, splat(GELU1), splat(GELU0)), one = splat(1.0f);
  return x / (one + vexp(-(x * p)));
}
FI vf dgelu(const hv_ew_args *g, vf x, vf dy) {
  (void)g;
  vf t = x * x, p = vfma(t, splat(GELU1), splat(GELU0)), one = splat(1.0f);
  vf s = one / (one + vexp(-(x * p))), q = s * (one - s);
  return dy * vfma(x * q, vfma(t, splat(GELU3), splat(GELU0)), s);
}

// gelu_rows writes z = gelu(x), or z = z * gelu'(x) where slope is set.
FI void gelu_rows(int slope, L m, L n, const float *x, float *z, L ld_) {
  float u[32], w[32];
  for (L i = 0; i < m; i++, x += ld_, z += ld_) {
    L j = 0;
    for (; j + VL <= n; j += VL) st(z + j, slope ? dgelu(NULL, ld(x + j), ld(z + j)) : gelu(NULL, ld(x + j), (vf){0}));
    if (j == n) continue;
    tail(u, x + j, n - j, 0); tail(w, z + j, n - j, 0);
    st(w, slope ? dgelu(NULL, ld(u), ld(w)) : gelu(NULL, ld(u), (vf){0}));
    memcpy(z + j, w, (n - j) * 4);
  }
}

// finish completes rows [i, i+m) and columns [j, j+n) of C.
static void finish(const hv_gemm_args *g, L i, L j, L m, L n) {
  L at = i * g->ldc + j;
  if (g->bias) bias_rows(m, n, g->c + at, g->ldc, g->bias + j, g->relu);
  if (g->gelu) gelu_rows(0, m, n, g->c + at, g->gelu + at, g->ldc);
  if (g->slope) gelu_rows(1, m, n, g->slope + at, g->c + at, g->ldc);
}
