// Rotary positions; see the reference in ../rope.go for the plain loop this equals.

static void k_rope(const void *v, L t) {
  const hv_rope_args *g = v;
  L half = g->d / 2, turned = g->heads * g->d;
  for (L r = t * HV_ROWS; r < HV_MIN(g->n, (t + 1) * HV_ROWS); r++) {
    const float *cs = g->cos + r % g->t * half, *sn = g->sin + r % g->t * half, *x = g->x + r * g->row;
    float *y = g->y + r * g->row;
    memcpy(y + turned, x + turned, (g->row - turned) * 4);
    for (L h = 0; h < g->heads; h++, x += g->d, y += g->d) {
      L i = 0;
      for (; i + VL <= half; i += VL) {
        vf a = ld(x + i), b = ld(x + half + i), c = ld(cs + i), s = ld(sn + i) * g->sign;
        st(y + i, a * c - b * s); st(y + half + i, b * c + a * s);
      }
      for (; i < half; i++) {
        float a = x[i], b = x[half + i], s = sn[i] * g->sign;
        y[i] = a * cs[i] - b * s; y[half + i] = b * cs[i] + a * s;
      }
    }
  }
}
