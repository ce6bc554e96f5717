// Attention whose products round their operands to bfloat16 (bf16.h), a head a tile:
// what many tiles read is packed once. Scores, softmax and sums stay float32. Tiles
// are filled up to 64 rows, and heads to a multiple of 32 columns, by zeros.

FI L round32(L n) { return (n + 31) / 32 * 32; }
// pack16 packs lanes x depth of x, which fill at most 64 lanes or round32(D).
FI void pack16(const hv_bf16 *u, int byLane, const float *x, L ls, L ds, L lanes, L depth, float *d) { u->pack(byLane, &(hv_src){x, ls, ds}, 0, lanes, 0, depth, d); }
// mul16 writes or adds m x n sums over so much depth.
FI void mul16(const hv_bf16 *u, L m, L n, L depth, const float *a, const float *b, float *c, L ldc, int add) {
  L steps = round32(depth) / 32;
  for (L i = 0; i < m; i += 32)
    for (L j = 0; j < n; j += 32) u->block(steps, a + i * steps * 16, b + j * steps * 16, c + i * ldc + j, ldc, add);
}

static void k_attn_fwd_bf16(const void *v, L bh) {
  const hv_attn_args *g = v;
  const hv_bf16 *u = bf16_unit(g->unit);
  attn_head a = attn_at(g, bh);
  L D = a.D, W = round32(D), unit = 32 * W, C3 = a.C3;   // floats of a packed tile
  float *s = hv_scratch(2, HV_TILE * HV_TILE), *o = hv_scratch(3, HV_TILE * W), *k = hv_scratch(4, a.nt * unit), *val = hv_scratch(5, a.nt * unit);
  float *q = hv_scratch(6, unit + 32 * HV_TILE), *p = q + unit, m[HV_TILE], l[HV_TILE];
  for (L j = 0; j < a.nt; j++) {
    L c0 = j * HV_TILE, keys = HV_MIN(HV_TILE, g->t - c0);
    pack16(u, 0, a.k + c0 * C3, C3, 1, keys, D, k + j * unit);
    pack16(u, 0, a.v + c0 * C3, 1, C3, D, keys, val + j * unit);
  }
  u->begin();
  for (L i = 0; i < a.nt; i++) {
    L r0 = i * HV_TILE, rows = HV_MIN(HV_TILE, g->t - r0), up = round32(rows);
    for (L r = 0; r < rows; r++) { m[r] = -1e30f; l[r] = 0; }
    memset(o, 0, HV_TILE * W * 4);
    pack16(u, 1, a.q + r0 * C3, C3, 1, rows, D, q);
    for (L j = 0; j < (g->full ? a.nt : i + 1); j++) {
      L keys = HV_MIN(HV_TILE, g->t - j * HV_TILE), wide = round32(keys);
      mul16(u, up, wide, D, q, k + j * unit, s, HV_TILE, 0);
      softmax_tile(g, i, j, rows, keys, s, m, l, o, W);
      pack16(u, 1, s, HV_TILE, 1, rows, wide, p);   // softmax left zeros beyond keys
      mul16(u, up, W, wide, p, val + j * unit, o, W, 1);
    }
    attn_finish(&a, r0, rows, m, l, o, W);
  }
  u->end();
}

// put_rows copies rows of D floats.
FI void put_rows(L rows, L D, const float *x, L ldx, float *y, L ldy) {
  for (L r = 0; r < rows; r++) memcpy(y + r * ldy, x + r * ldx, D * 4);
}

static void k_attn_bwd_bf16(const void *v, L bh) {
  const hv_attn_args *g = v;
  const hv_bf16 *u = bf16_unit(g->unit);
  attn_head a = attn_at(g, bh);
  L D = a.D, W = round32(D), unit = 32 * W, C = a.C, C3 = a.C3, half = 32 * HV_TILE;
  float *s = hv_scratch(2, 2 * HV_TILE * HV_TILE), *dp = s + HV_TILE * HV_TILE, *sums = hv_scratch(3, 2 * HV_TILE * W), *delta = hv_scratch(4, g->t);
  float *by = hv_scratch(5, 4 * a.nt * unit), *k = hv_scratch(6, 3 * unit + half), *val = k + unit, *k2 = val + unit, *p = k2 + unit, *dq = hv_scratch(7, a.nt * HV_TILE * W);
  for (L i = 0; i < a.nt; i++) {   // queries and gradients, by rows and by columns
    L r0 = i * HV_TILE, rows = HV_MIN(HV_TILE, g->t - r0);
    const float *q = a.q + r0 * C3, *go = a.go + r0 * C;
    float *to = by + 4 * i * unit;
    pack16(u, 1, q, C3, 1, rows, D, to); pack16(u, 1, go, C, 1, rows, D, to + unit);
    pack16(u, 0, q, 1, C3, D, rows, to + 2 * unit); pack16(u, 0, go, 1, C, D, rows, to + 3 * unit);
    for (L r = r0; r < r0 + rows; r++) delta[r] = dot32(a.go + r * C, a.o + r * C, D);
  }
  memset(dq, 0, a.nt * HV_TILE * W * 4);
  u->begin();
  for (L j = 0; j < a.nt; j++) {
    L c0 = j * HV_TILE, keys = HV_MIN(HV_TILE, g->t - c0), wide = round32(keys);
    pack16(u, 0, a.k + c0 * C3, C3, 1, keys, D, k);
    pack16(u, 0, a.v + c0 * C3, C3, 1, keys, D, val);
    pack16(u, 0, a.k + c0 * C3, 1, C3, D, keys, k2);
    memset(sums, 0, 2 * HV_TILE * W * 4);
    for (L i = g->full ? 0 : j; i < a.nt; i++) {
      L rows = HV_MIN(HV_TILE, g->t - i * HV_TILE), up = round32(rows);
      const float *by_i = by + 4 * i * unit;
      mul16(u, up, wide, D, by_i, k, s, HV_TILE, 0);
      mul16(u, up, wide, D, by_i + unit, val, dp, HV_TILE, 0);
      grad_tile(g, &a, i, j, rows, keys, s, dp, delta);
      pack16(u, 1, s, 1, HV_TILE, wide, rows, p);
      mul16(u, wide, W, rows, p, by_i + 3 * unit, sums, W, 1);
      pack16(u, 1, dp, 1, HV_TILE, wide, rows, p);
      mul16(u, wide, W, rows, p, by_i + 2 * unit, sums + HV_TILE * W, W, 1);
      pack16(u, 1, dp, HV_TILE, 1, rows, wide, p);
      mul16(u, up, W, wide, p, k2, dq + i * HV_TILE * W, W, 1);
    }
    put_rows(keys, D, sums, W, a.dv + c0 * C3, C3);
    put_rows(keys, D, sums + HV_TILE * W, W, a.dk + c0 * C3, C3);
  }
  u->end();
  put_rows(g->t, D, dq, W, a.dq, C3);
}
