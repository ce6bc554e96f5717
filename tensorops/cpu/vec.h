// Vectors of VB bytes by compiler extensions. The includer defines VB, vfma and
// vsqrt (one rounding each, per lane), MR and NV. Every float operation below is
// one IEEE operation; fp-contract is off in every includer.
#define VL ((L)(VB / 4))
#define R32 ((int)(32 / (VB / 4)))   // vectors that make the 32 lanes of a row reduction
#define FI static inline __attribute__((always_inline))

FI vf ld(const float *p) { return *(const vu *)p; }
FI void st(float *p, vf v) { *(vu *)p = v; }
FI vf splat(float x) { return x - (vf){0}; }
FI vf sel(vi k, vf a, vf b) { return (vf)(((vi)a & k) | ((vi)b & ~k)); }
FI vf vmax(vf a, vf b) { return sel(a > b, a, b); }

// hsum32 halves 32 lanes: 16, 8, 4, 2, 1. FOLD moves a vector's upper half of 2h
// lanes onto its lower.
#define SHUF __builtin_shufflevector
#if VB == 64
#define FOLD(v, h) SHUF(v, v, h, h + 1, h + 2, h + 3, h + 4, h + 5, h + 6, h + 7, 8, 9, 10, 11, 12, 13, 14, 15)
#elif VB == 32
#define FOLD(v, h) SHUF(v, v, h, h + 1, h + 2, h + 3, 4, 5, 6, 7)
#else
#define FOLD(v, h) SHUF(v, v, h, h + 1, 2, 3)
#endif
#define HALVE(f)                                                             \
  vf t[R32];                                                                 \
  for (int i = 0; i < R32; i++) t[i] = a[i];                                 \
  for (int h = R32 / 2; h > 0; h /= 2) for (int j = 0; j < h; j++) t[j] = f(t[j], t[j + h]); \
  vf s = t[0];                                                               \
  HALVE8(f) HALVE4(f) s = f(s, FOLD(s, 2)); s = f(s, FOLD(s, 1));            \
  return s[0];
#if VB == 64
#define HALVE8(f) s = f(s, FOLD(s, 8));
#else
#define HALVE8(f)
#endif
#if VB >= 32
#define HALVE4(f) s = f(s, FOLD(s, 4));
#else
#define HALVE4(f)
#endif
FI vf vadd(vf a, vf b) { return a + b; }
FI float hsum32(const vf *a) { HALVE(vadd) }
FI float hmax32(const vf *a) { HALVE(vmax) }
// tail copies n < 32 floats and fills up with pad, so that tails use the same lanes.
FI const float *tail(float *t, const float *x, L n, float pad) {
  for (L i = 0; i < 32; i++) t[i] = i < n ? x[i] : pad;
  return t;
}
// vexp is num.Exp32.
FI vf vexp(vf x) {
  x = sel(x < splat(88.0f), x, splat(88.0f));
  x = sel(x > splat(-87.0f), x, splat(-87.0f));
  vf t = vfma(x, splat(1.44269504f), splat(12582912.0f));
  vi n = (vi)t - 0x4B400000;
  t = t - 12582912.0f;
  vf r = vfma(t, splat(-0.693359375f), x);
  r = vfma(t, splat(2.12194440e-4f), r);
  vf y = splat(1.9875691500e-4f);
  y = vfma(y, r, splat(1.3981999507e-3f));
  y = vfma(y, r, splat(8.3334519073e-3f));
  y = vfma(y, r, splat(4.1665795894e-2f));
  y = vfma(y, r, splat(1.6666665459e-1f));
  y = vfma(y, r, splat(5.0000001201e-1f));
  y = vfma(y, r * r, r) + 1.0f;
  return (vf)((vi)y + (n << 23));
}

// tr transposes VL rows of VL floats into rows of stride ldd, ascending.
#if VB == 64
FI void tr(const float *const *q, float *d, L ldd) {
  vf r[16], t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) r[i] = ld(q[i]);
#pragma GCC unroll 4
  for (int s = 0; s < 4; s++) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
      t[2 * i] = SHUF(r[i], r[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      t[2 * i + 1] = SHUF(r[i], r[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) r[i] = t[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) st(d + i * ldd, r[i]);
}
#elif VB == 16
FI void tr(const float *const *q, float *d, L ldd) {
  vf a = ld(q[0]), b = ld(q[1]), c = ld(q[2]), e = ld(q[3]);
  vf x = SHUF(a, c, 0, 4, 1, 5), y = SHUF(a, c, 2, 6, 3, 7), z = SHUF(b, e, 0, 4, 1, 5), w = SHUF(b, e, 2, 6, 3, 7);
  st(d, SHUF(x, z, 0, 4, 1, 5)); st(d + ldd, SHUF(x, z, 2, 6, 3, 7));
  st(d + 2 * ldd, SHUF(y, w, 0, 4, 1, 5)); st(d + 3 * ldd, SHUF(y, w, 2, 6, 3, 7));
}
#endif
