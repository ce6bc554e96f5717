"""PyTorch's side of `make bench-compute`: one process that is told on its
standard input, line by line, what to run once, and answers with the processor
and wall time of that run in seconds. argv[1] is the number of threads.

Everything is set up as a PyTorch user would for speed: the fused entry points,
set_to_none, inference mode for bare kernels, channels_last beside the default
format. Times exclude the first two runs of everything."""
import math
import os
import sys
import time

threads = int(sys.argv[1])
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(threads)
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

torch.set_num_threads(threads)
torch.manual_seed(0)


def rss(field):
    for line in open("/proc/self/status"):
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return 0


def repeat(n, f):
    def run():
        with torch.no_grad():
            for _ in range(n):
                f()
    return run


def mm(m, n, k, calls=1):
    a, b, c = torch.randn(m, k), torch.randn(n, k), torch.empty(m, n)
    return repeat(calls, lambda: torch.mm(a, b.t(), out=c))


def mm_nn(n, calls=1):
    a, b, c = torch.randn(n, n), torch.randn(n, n), torch.empty(n, n)
    return repeat(calls, lambda: torch.mm(a, b, out=c))


def onednn(m, n, k):
    x, w, b = torch.randn(m, k).to_mkldnn(), torch.randn(n, k), torch.zeros(n)
    return repeat(1, lambda: torch._C._nn.mkldnn_linear(x, w, b))


def training(model, loss, clip=0.0, **adam):
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, **adam)

    def run():
        l = loss()
        opt.zero_grad(set_to_none=True)
        l.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        opt.step()
        return l.item()
    return run


def mlp():
    m = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                      nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    x, y = torch.randn(256, 784), torch.randint(0, 10, (256,))
    return training(m, lambda: F.cross_entropy(m(x), y))


class Block(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.c2, self.b2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.d = nn.Identity()
        if stride != 1 or i != o:
            self.d = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        h = F.relu(self.b1(self.c1(x)))
        return F.relu(self.b2(self.c2(h)) + self.d(x))


def resnet8(side, cin, batch, form):
    m = nn.Sequential(nn.Conv2d(cin, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                      Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2),
                      nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    x, y = torch.randn(batch, cin, side, side), torch.randint(0, 10, (batch,))
    m, x = m.to(memory_format=form), x.contiguous(memory_format=form)
    return training(m, lambda: F.cross_entropy(m(x), y))


LAYERS, HEADS, D, T, V, B = 6, 6, 384, 256, 65, 8


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.o = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        self.register_buffer("mask", torch.tril(torch.ones(T, T)).view(1, 1, T, T) == 0)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = [z.view(b, t, HEADS, c // HEADS).transpose(1, 2) for z in self.qkv(x).split(D, 2)]
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            a = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(c // HEADS))
            y = F.softmax(a.masked_fill(self.mask, float("-inf")), -1) @ v
        return self.o(y.transpose(1, 2).contiguous().view(b, t, c))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.a, self.l2 = nn.LayerNorm(D), Attn(), nn.LayerNorm(D)
        self.f, self.p = nn.Linear(D, 4 * D, bias=False), nn.Linear(4 * D, D, bias=False)

    def forward(self, x):
        x = x + self.a(self.l1(x))
        return x + self.p(F.gelu(self.f(self.l2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.te, self.pe = nn.Embedding(V, D), nn.Embedding(T, D)
        self.b, self.ln = nn.ModuleList([Layer() for _ in range(LAYERS)]), nn.LayerNorm(D)
        self.h = nn.Linear(D, V, bias=False)
        self.h.weight = self.te.weight

    def forward(self, i):
        x = self.te(i) + self.pe(torch.arange(i.shape[1]))
        for b in self.b:
            x = b(x)
        return self.h(self.ln(x))


def gpt(bf16):
    m = GPT()
    x, y = torch.randint(0, V, (B, T)), torch.randint(0, V, (B, T))

    def loss():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            out = m(x)
        return F.cross_entropy(out.float().view(-1, V), y.view(-1))
    return training(m, loss, clip=1.0, betas=(0.9, 0.99), weight_decay=0.1)


def adamw():
    p = nn.Parameter(torch.randn(2 << 20))
    p.grad = torch.randn(2 << 20)
    return torch.optim.AdamW([p], lr=1e-3).step


def rows(f, *shape, calls=10):
    x = torch.randn(*shape)
    return repeat(calls, lambda: f(x))


def layernorm():
    x, g, b = torch.randn(2048, 384), torch.ones(384), torch.zeros(384)
    return repeat(10, lambda: F.layer_norm(x, (384,), g, b))


def layernorm_backward():
    x, g, b = torch.randn(2048, 384), torch.ones(384), torch.zeros(384)
    dy = torch.randn(2048, 384)
    y, mean, rstd = torch.ops.aten.native_layer_norm(x, (384,), g, b, 1e-5)
    return repeat(10, lambda: torch.ops.aten.native_layer_norm_backward(dy, x, (384,), mean, rstd, g, b, [True, True, True]))


nhwc, nchw = torch.channels_last, torch.contiguous_format
make = {
    "sgemm_1024/mm": lambda: mm_nn(1024),
    "sgemm_1024/onednn": lambda: onednn(1024, 1024, 1024),
    "sgemm_gpt_fc/mm": lambda: mm(2048, 1536, 384),
    "sgemm_gpt_fc/onednn": lambda: onednn(2048, 1536, 384),
    "sgemm_64/mm": lambda: mm_nn(64, 2000),
    "mlp_step": mlp,
    "gpt_fp32_step": lambda: gpt(False),
    "gpt_bf16_step": lambda: gpt(True),
    "resnet8_28_step/nchw": lambda: resnet8(28, 1, 64, nchw),
    "resnet8_28_step/nhwc": lambda: resnet8(28, 1, 64, nhwc),
    "resnet8_64_step/nchw": lambda: resnet8(64, 3, 32, nchw),
    "resnet8_64_step/nhwc": lambda: resnet8(64, 3, 32, nhwc),
    "adamw": adamw,
    "layernorm": layernorm,
    "layernorm_backward": layernorm_backward,
    "gelu": lambda: rows(lambda x: F.gelu(x, approximate="tanh"), 2048, 1536, calls=2),
}


def memory():
    """Growth of the peak over what the process took before the model."""
    base, f = rss("VmRSS"), gpt(False)
    for _ in range(4):
        f()
    return rss("VmHWM") - base


print(torch.__version__, flush=True)
ready = {}
for line in sys.stdin:
    name = line.strip()
    try:
        if name == "memory":
            print(memory(), 0, flush=True)
            continue
        if name not in ready:
            for old in [k for k in ready if k.split("/")[0] != name.split("/")[0]]:
                del ready[old]
            ready[name] = make[name]()
            ready[name]()
            ready[name]()
        f = ready[name]
        wall, cpu = time.perf_counter(), time.process_time()
        f()
        print(time.process_time() - cpu, time.perf_counter() - wall, flush=True)
    except Exception as e:  # told to the driver, which skips this name
        print("error", type(e).__name__, str(e).split("\n")[0], flush=True)
