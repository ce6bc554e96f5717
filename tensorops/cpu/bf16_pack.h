// Packing of bfloat16 blocks; see bf16.h for their layout.
typedef unsigned vw __attribute__((vector_size(VB)));
FI vw rne(vf x) { vw u = (vw)x; return u + 0x7fff + ((u >> 16) & 1); }
// depth_pairs joins 2 VL neighbours in depth, lane_pairs two vectors of lanes.
#ifndef OWN_PAIRS
FI vf lane_pairs(vf low, vf high) { return (vf)((rne(low) >> 16) | (rne(high) & 0xffff0000u)); }
#if VB == 64
#define EVEN(a, b) SHUF(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD(a, b) SHUF(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#elif VB == 32
#define EVEN(a, b) SHUF(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b) SHUF(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#else
#define EVEN(a, b) SHUF(a, b, 0, 2, 4, 6)
#define ODD(a, b) SHUF(a, b, 1, 3, 5, 7)
#endif
FI vf depth_pairs(const float *q) { vf a = ld(q), b = ld(q + VL); return lane_pairs(EVEN(a, b), ODD(a, b)); }
#endif

// flip transposes a block.
FI void flip(const float *s, float *d) {
  for (L i = 0; i < 16; i += VL)
    for (L j = 0; j < 16; j += VL) {
      const float *q[VB / 4];
      for (L e = 0; e < VL; e++) q[e] = s + (i + e) * 16 + j;
      tr(q, d + j * 16 + i, 16);
    }
}

// bf16_pack_block writes the two blocks of 32 lanes from l and of depth from p, of
// which w and n are there; q is their first element.
FI void bf16_pack_block(int byLane, const float *q, L ls, L ds, L w, L n, float *d) {
  float t[256] __attribute__((aligned(64))), f[16 * 32] __attribute__((aligned(64)));
  for (L h = 0; h < 32; h += 16, d += 256, q += 16 * ls, w -= 16) {
    const float *x = q;
    L xl = ls, xd = ds;
    if (w <= 0) { memset(d, 0, 256 * 4); continue; }
    if (w < 16 || n < 32 || (ls != 1 && ds != 1)) {
      for (L i = 0; i < 16; i++) for (L e = 0; e < 32; e++) f[i * 32 + e] = i < w && e < n ? q[i * ls + e * ds] : 0;
      x = f; xl = 32; xd = 1;
    }
    float *o = (xd == 1) == !!byLane ? d : t;
    if (xd == 1)
      for (L i = 0; i < 16; i++)
        for (L e = 0; e < 16; e += VL) st(o + i * 16 + e, depth_pairs(x + i * xl + 2 * e));
    else
      for (L e = 0; e < 16; e++)
        for (L i = 0; i < 16; i += VL) st(o + e * 16 + i, lane_pairs(ld(x + 2 * e * xd + i), ld(x + (2 * e + 1) * xd + i)));
    if (o == t) flip(t, d);
  }
}

// bf16_pack writes the blocks of lanes [l0, l0+lanes) and depth [p0, p0+len), filled
// up with zeros; byLane chooses the layout. It walks along the rows in memory, since
// these may lie pages apart.
static void bf16_pack(int byLane, const hv_src *s, L l0, L lanes, L p0, L len, float *d) {
  const float *q = s->p + l0 * s->ls + p0 * s->ds;
  L steps = (len + 31) / 32, wide = (lanes + 31) / 32;
  for (L e = 0; e < steps * wide; e++) {
    L l = 32 * (s->ls == 1 ? e % wide : e / steps), p = 32 * (s->ls == 1 ? e / wide : e % steps);
    bf16_pack_block(byLane, q + l * s->ls + p * s->ds, s->ls, s->ds, lanes - l, len - p, d + l * steps * 16 + p * 16);
  }
}
