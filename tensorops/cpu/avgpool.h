// Means of windows, a row of the result a tile; see the reference in ../avgpool.go for
// the plain loops that these equal.

// window_sum writes inv times the sums of C floats at x + i*si + j*sj over i < ni, j < nj.
FI void window_sum(L C, const float *x, L ni, L si, L nj, L sj, float inv, float *y) {
  L c = 0;
  for (; c + VL <= C; c += VL) {
    vf s = {0};
    for (L i = 0; i < ni; i++) for (L j = 0; j < nj; j++) s += ld(x + i * si + j * sj + c);
    st(y + c, s * inv);
  }
  for (; c < C; c++) {
    float s = 0;
    for (L i = 0; i < ni; i++) for (L j = 0; j < nj; j++) s += x[i * si + j * sj + c];
    y[c] = s * inv;
  }
}

static void k_avg_fwd(const void *v, L t) {
  const hv_avg_args *g = v;
  L b = t / g->oh, i = t % g->oh, row = g->w * g->c;
  const float *x = g->x + (b * g->h + i * g->s) * row;
  for (L j = 0; j < g->ow; j++) window_sum(g->c, x + j * g->s * g->c, g->k, row, g->k, g->c, 1.0f / (g->k * g->k), g->y + (t * g->ow + j) * g->c);
}

// windows returns how many of n windows reach position p, from *first on.
FI L windows(const hv_avg_args *g, L p, L n, L *first) {
  *first = p < g->k ? 0 : (p - g->k) / g->s + 1;
  L end = HV_MIN(n, p / g->s + 1);
  return end > *first ? end - *first : 0;
}

static void k_avg_bwd(const void *v, L t) {
  const hv_avg_args *g = v;
  L b = t / g->h, i0, j0, ni = windows(g, t % g->h, g->oh, &i0), row = g->ow * g->c;
  for (L x = 0; x < g->w; x++) {
    L nj = windows(g, x, g->ow, &j0);
    window_sum(g->c, g->x + (b * g->oh + i0) * row + j0 * g->c, ni, row, nj, g->c, 1.0f / (g->k * g->k), g->y + (t * g->w + x) * g->c);
  }
}
