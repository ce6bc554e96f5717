#!/usr/bin/env python3
"""Reads the vectors of this folder with the standard library only.

A decoder of hived's CBOR in forty lines, and with it every byte of
nouns.json, names.json, signatures.json and certificate.json is explained.
"""
import base64
import hashlib
import json
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))


def load(name):
    with open(os.path.join(HERE, name)) as f:
        return json.load(f)


def head(b, i):
    """Major type, argument and next offset; only the shortest form is taken."""
    major, low = b[i] >> 5, b[i] & 31
    i += 1
    if low < 24:
        return major, low, i
    size = {24: 1, 25: 2, 26: 4, 27: 8}[low]
    n = int.from_bytes(b[i:i + size], "big")
    if major != 7:
        assert n >= (24 if size == 1 else 1 << (4 * size)), "not the shortest form"
    return major, (size, n), i + size


def decode(b, i=0):
    major, arg, i = head(b, i)
    if major == 7:
        if arg in (20, 21):
            return arg == 21, i
        size, n = arg
        return struct.unpack({2: ">e", 4: ">f", 8: ">d"}[size], n.to_bytes(size, "big"))[0], i
    n = arg[1] if isinstance(arg, tuple) else arg
    if major == 0:
        return n, i
    if major == 1:
        return -1 - n, i
    if major == 2:
        return "hex:" + b[i:i + n].hex(), i + n
    if major == 3:
        return b[i:i + n].decode(), i + n
    assert major == 4, "maps and tags are not used"
    out = []
    for _ in range(n):
        v, i = decode(b, i)
        out.append(v)
    return out, i


def same(got, want, where):
    if isinstance(want, dict):
        want = list(want.values())
    if isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want), where
        for k, (g, w) in enumerate(zip(got, want)):
            same(g, w, "%s[%d]" % (where, k))
    elif isinstance(want, float) or isinstance(got, float):
        assert abs(got - want) <= 1e-6 * abs(want), (where, got, want)
    else:
        assert got == want, (where, got, want)


def sha(b):
    return hashlib.sha256(b).digest()


def root(leaves):
    """RFC 6962, section 2.1."""
    if not leaves:
        return sha(b"")
    if len(leaves) == 1:
        return sha(b"\0" + leaves[0])
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return sha(b"\1" + root(leaves[:k]) + root(leaves[k:]))


def base58(b):
    digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    n, out = int.from_bytes(b, "big"), ""
    while n:
        n, r = divmod(n, 58)
        out = digits[r] + out
    return "1" * (len(b) - len(b.lstrip(b"\0"))) + out


def cid(codec, b):
    return bytes([1, codec, 0x12, 32]) + sha(b)


def text(c):
    return "b" + base64.b32encode(c).decode().lower().rstrip("=")


def main():
    n = 0
    for v in load("nouns.json")["vectors"]:
        b = bytes.fromhex(v["hex"])
        assert sha(b).hex() == v["sha256"], v["noun"]
        got, end = decode(b)
        assert end == len(b), v["noun"]
        same(got, v["meaning"], v["noun"])
        n += 1
    names = load("names.json")
    for v in names["peers"]:
        assert base58(bytes.fromhex("002408011220") + bytes.fromhex(v["public"])) == v["text"]
        n += 1
    for v in names["cids"]:
        b = bytes.fromhex(v["bytes"])
        assert cid(0x55, b).hex() == v["raw_binary"]
        assert (text(cid(0x55, b)), text(cid(0x71, b))) == (v["raw"], v["manifest"])
        n += 1
    for v in names["roots"]:
        assert root([bytes.fromhex(x) for x in v["leaves"]]).hex() == v["root"]
        n += 1
    for v in load("signatures.json")["vectors"]:
        domain, body = bytes.fromhex(v["message"]).split(b"\n", 1)
        assert domain.startswith(b"hived/"), domain
        assert decode(body)[1] == len(body)
        n += 1
    cert = load("certificate.json")
    parts = [bytes.fromhex(p["hex"]) for p in cert["message_parts"]]
    assert b"".join(parts).hex() == cert["message"]
    n += 1
    print("%d vectors are good" % n)


if __name__ == "__main__":
    main()
