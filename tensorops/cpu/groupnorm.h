// Group norm, a sample a tile; see the reference in ../groupnorm.go for the plain
// loops that these equal.

// gn_masked returns dy where y > 0, or all of it without y.
FI vf gn_masked(const float *dy, const float *y) { return y ? sel(ld(y) > (vf){0}, ld(dy), (vf){0}) : ld(dy); }
FI float gn_masked1(const float *dy, const float *y) { return y && !(*y > 0) ? 0 : *dy; }

// gn_sums writes, by channel, the sums of x and of x*z over P positions in double.
// The products are exact there. x is cleared where y, if there is one, is not above 0.
FI void gn_sums(L P, L C, const float *x, const float *y, const float *z, double *s, double *q) {
  L c = 0;
  for (; c + 16 <= C; c += 16) {
    vd8 a[2] = {{0}, {0}}, b[2] = {{0}, {0}};
    for (L p = 0; p < P; p++) {
      float t[16];
      const float *at = x + p * C + c;
      if (y) {
        for (L i = 0; i < 16; i += VL) st(t + i, gn_masked(at + i, y + p * C + c + i));
        at = t;
      }
      for (int h = 0; h < 2; h++) {
        vd8 u = __builtin_convertvector(*(const vf8 *)(at + 8 * h), vd8), w = __builtin_convertvector(*(const vf8 *)(z + p * C + c + 8 * h), vd8);
        a[h] += u; b[h] += u * w;
      }
    }
    for (int h = 0; h < 16; h++) { s[c + h] = a[h / 8][h % 8]; q[c + h] = b[h / 8][h % 8]; }
  }
  for (; c < C; c++) {
    double a = 0, b = 0;
    for (L p = 0; p < P; p++) {
      double u = gn_masked1(x + p * C + c, y ? y + p * C + c : NULL), w = z[p * C + c];
      a += u; b += u * w;
    }
    s[c] = a; q[c] = b;
  }
}

static void k_gn_fwd(const void *v, L n) {
  const hv_gn_args *g = v;
  L P = g->p, C = g->c, per = C / g->g;
  const float *x = g->x + n * P * C;
  float *y = g->y + n * P * C, *a = hv_scratch(2, 6 * C), *b = a + C, *st2 = g->stats + 2 * n * g->g;
  double *s = (double *)hv_scratch(3, 4 * C), *q = s + C, m = per * P;
  gn_sums(P, C, x, NULL, x, s, q);
  for (L e = 0; e < g->g; e++) {
    double sum = 0, sq = 0;
    for (L j = e * per; j < (e + 1) * per; j++) { sum += s[j]; sq += q[j]; }
    double mean = sum / m, var = sq / m - mean * mean;
    float mu = mean, rstd = 1 / __builtin_sqrt((var < 0 ? 0 : var) + g->eps);
    st2[2 * e] = mu; st2[2 * e + 1] = rstd;
    for (L j = e * per; j < (e + 1) * per; j++) { a[j] = g->gain[j] * rstd; b[j] = g->shift[j] - mu * a[j]; }
  }
  for (L p = 0; p < P; p++, x += C, y += C) {
    L c = 0;
    for (; c + VL <= C; c += VL) {
      vf u = ld(x + c) * ld(a + c) + ld(b + c);
      st(y + c, g->relu ? vmax(u, (vf){0}) : u);
    }
    for (; c < C; c++) { float u = x[c] * a[c] + b[c]; y[c] = g->relu ? (u > 0 ? u : 0) : u; }
  }
}

static void k_gn_bwd(const void *v_, L n) {
  const hv_gn_args *g = v_;
  L P = g->p, C = g->c, per = C / g->g;
  const float *x = g->x + n * P * C, *dy = g->dy + n * P * C, *y = g->relu ? g->y + n * P * C : NULL, *st2 = g->stats + 2 * n * g->g;
  float *u = hv_scratch(2, 3 * C), *v = u + C, *w = v + C, *dg = g->work + 2 * n * C, *db = dg + C;
  double *s = (double *)hv_scratch(3, 4 * C), *q = s + C, m = per * P;
  gn_sums(P, C, dy, y, x, s, q);
  for (L e = 0; e < g->g; e++) {
    double mean = st2[2 * e], rstd = st2[2 * e + 1], a = 0, b = 0, r2 = rstd * rstd;
    for (L j = e * per; j < (e + 1) * per; j++) {
      q[j] = (q[j] - mean * s[j]) * rstd;
      a += (double)g->gain[j] * s[j];
      b += (double)g->gain[j] * q[j];
    }
    a = a / m; b = b / m;
    for (L j = e * per; j < (e + 1) * per; j++) {
      u[j] = (double)g->gain[j] * rstd; v[j] = -r2 * b; w[j] = mean * r2 * b - rstd * a;
      dg[j] = q[j]; db[j] = s[j];
    }
  }
  if (!g->dx) return;
  float *dx = g->dx + n * P * C;
  for (L p = 0; p < P; p++) {
    L c = p * C, e = c + C;
    for (L j = 0; c + VL <= e; c += VL, j += VL) st(dx + c, gn_masked(dy + c, y ? y + c : NULL) * ld(u + j) + ld(x + c) * ld(v + j) + ld(w + j));
    for (L j = c - p * C; c < e; c++, j++) dx[c] = gn_masked1(dy + c, y ? y + c : NULL) * u[j] + x[c] * v[j] + w[j];
  }
}
