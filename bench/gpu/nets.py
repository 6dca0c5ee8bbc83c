"""Networks for pictures of 32 and 64 pixels, and one training step of them as a CUDA graph.

At batches of a few hundred the step is bound by launching kernels, not by computing: captured once and replayed
it takes a third of the time. Batches of another size (an epoch's last) run uncaptured and uncompiled.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

from paper_nets import PAPER_NETS


class Block(nn.Module):
    def __init__(self, inside, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.short = None
        if stride != 1 or inside != out:
            self.short = nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False),
                                       nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        return F.relu(y + (x if self.short is None else self.short(x)), inplace=True)


class ResNet18(nn.Module):
    """The first convolution is 3 x 3, with stride 2 for 64 pixels. All nets give logits and what the last layer
    is fed with."""

    def __init__(self, classes, side):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 64, 3, side // 32, 1, bias=False), nn.BatchNorm2d(64),
                                   nn.ReLU(inplace=True))
        blocks, width = [], 64
        for out, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [Block(width, out, stride), Block(out, out, 1)]
            width = out
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Linear(512, classes)

    def forward(self, x):
        e = self.blocks(self.first(x)).mean((2, 3))
        return self.last(e), e


class Attend(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(self.one(x)).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))
        return x + self.down(F.gelu(self.up(self.two(x))))


class ViT(nn.Module):
    """A small one: 64 patches, width 192, six layers."""

    def __init__(self, classes, side, width=192, layers=6):
        super().__init__()
        self.cut = nn.Conv2d(3, width, side // 8, side // 8)
        self.place = nn.Parameter(torch.randn(1, 64, width) * .02)
        self.layers = nn.Sequential(*[Attend(width, 3) for _ in range(layers)])
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        e = self.norm(self.layers(self.cut(x).flatten(2).transpose(1, 2) + self.place)).mean(1)
        return self.last(e), e


class Wide(nn.Module):
    """A block as ConvNeXt has it: 7 x 7 a channel, norm, up by four and down again."""

    def __init__(self, width):
        super().__init__()
        self.deep = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), .1))

    def forward(self, x):
        y = self.norm(self.deep(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    """A small one: widths 64, 128, 256 on 16, 8 and 4 squared."""

    def __init__(self, classes, side):
        super().__init__()
        self.first = nn.Conv2d(3, 64, side // 16, side // 16)
        stages = []
        for width, blocks in ((64, 2), (128, 2), (256, 4)):
            stages += [Wide(width) for _ in range(blocks)]
            if width < 256:
                stages.append(nn.Conv2d(width, 2 * width, 2, 2))
        self.stages = nn.Sequential(*stages)
        self.norm, self.last = nn.LayerNorm(256), nn.Linear(256, classes)

    def forward(self, x):
        e = self.norm(self.stages(self.first(x)).mean((2, 3)))
        return self.last(e), e


NETS = {"resnet18": ResNet18, "vit": ViT, "convnext": ConvNeXt, **PAPER_NETS}


def rate_at(done, top, warm=2 / 30):
    """Learning rate at a share of the run: up for two epochs of thirty, then down as a cosine."""
    if done < warm:
        return top * done / warm
    return top * .5 * (1 + math.cos(math.pi * (done - warm) / (1 - warm)))


class SGD:
    """With Nesterov momentum; the learning rate is a tensor, so that a graph can follow it."""
    top = .2  # for batches of 256

    def __init__(self, params, momentum=.9, decay=5e-4):
        self.params, self.momentum, self.decay = params, momentum, decay
        self.state = [torch.zeros_like(p) for p in params]

    def step(self, g, lr):
        torch._foreach_add_(g, self.params, alpha=self.decay)
        torch._foreach_mul_(self.state, self.momentum)
        torch._foreach_add_(self.state, g)
        torch._foreach_add_(g, self.state, alpha=self.momentum)
        torch._foreach_mul_(g, lr)
        torch._foreach_sub_(self.params, g)


class AdamW:
    top = 1e-3

    def __init__(self, params, betas=(.9, .999), decay=.05):
        self.params, self.betas, self.decay = params, betas, decay
        self.mean = [torch.zeros_like(p) for p in params]
        self.square = [torch.zeros_like(p) for p in params]
        self.shrunk = torch.ones(2, device=params[0].device)  # powers of the betas
        self.beta = torch.tensor(betas, device=params[0].device)
        self.state = self.mean + self.square + [self.shrunk]

    def step(self, g, lr):
        self.shrunk.mul_(self.beta)
        torch._foreach_lerp_(self.mean, g, 1 - self.betas[0])
        torch._foreach_mul_(self.square, self.betas[1])
        torch._foreach_addcmul_(self.square, g, g, 1 - self.betas[1])
        root = torch._foreach_div(self.square, 1 - self.shrunk[1])
        torch._foreach_sqrt_(root)
        torch._foreach_add_(root, 1e-8)
        move = torch._foreach_div(self.mean, root)
        torch._foreach_mul_(move, lr / (1 - self.shrunk[0]))
        torch._foreach_mul_(self.params, 1 - lr * self.decay)
        torch._foreach_sub_(self.params, move)


class Trainer:
    """A network, its optimizer and one step of both. The step gives the plain cross entropies of the rows, their
    logits and embeddings, all as they were before it."""

    def __init__(self, net, optimizer, classes, batch, side, device, smooth=0., compiled=False):
        self.device, self.smooth, self.batch, self.graph = device, smooth, batch, None
        self.model = NETS[net](classes, side).to(device).to(memory_format=torch.channels_last)
        self.begin = [t.detach().clone() for t in self.model.buffers()]
        self.compiled = torch.compile(self.model, dynamic=False) if compiled else self.model
        self.params = list(self.model.parameters())
        self.optimizer = {"sgd": SGD, "adamw": AdamW}[optimizer](self.params)
        self.top = self.optimizer.top * (batch / 256 if optimizer == "sgd" else 1)
        self.lr = torch.zeros((), device=device)
        self.x = torch.zeros((batch, 3, side, side), device=device).contiguous(memory_format=torch.channels_last)
        self.y = torch.zeros(batch, dtype=torch.long, device=device)
        self.w = torch.ones(batch, device=device)

    @torch.no_grad()
    def reset(self, seed):
        """As new, with the weights of this seed; what was captured stays."""
        torch.manual_seed(seed)
        fresh = type(self.model)(self.model.last.out_features, self.x.shape[-1])
        for mine, new in zip(self.model.parameters(), fresh.parameters()):
            mine.copy_(new)
        for mine, new in zip(self.model.buffers(), self.begin):
            mine.copy_(new)
        for t in self.optimizer.state:
            t.fill_(1) if t is getattr(self.optimizer, "shrunk", None) else t.zero_()

    def _step(self, x, y, w):
        forward = self.compiled if len(x) == self.batch else self.model
        with torch.autocast(self.device, torch.bfloat16, self.device != "cpu", cache_enabled=False):
            logits, e = forward(x.contiguous(memory_format=torch.channels_last))
        logits = logits.float()
        loss = F.cross_entropy(logits, y, reduction="none", label_smoothing=self.smooth)
        g = list(torch.autograd.grad((loss * w).mean(), self.params))
        with torch.no_grad():
            self.optimizer.step(g, self.lr)
        logits = logits.detach()
        plain = F.cross_entropy(logits, y, reduction="none") if self.smooth else loss.detach()
        return plain, logits, e.detach()

    def _capture(self):
        # Warming up on a side stream changes weights and running means: put them back after it.
        every = self.params + self.optimizer.state + list(self.model.buffers())
        kept = [t.detach().clone() for t in every]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._step(self.x, self.y, self.w)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self._step(self.x, self.y, self.w)
        with torch.no_grad():
            for t, k in zip(every, kept):
                t.copy_(k)

    def step(self, x, y, w):
        if len(x) != self.batch or self.device == "cpu":
            return self._step(x.to(self.device), y.to(self.device), w.to(self.device))
        if self.graph is None:
            self._capture()
        self.x.copy_(x, non_blocking=True)
        self.y.copy_(y, non_blocking=True)
        self.w.copy_(w, non_blocking=True)
        self.graph.replay()
        return tuple(t.clone() for t in self.out)

    @torch.no_grad()
    def losses(self, x, y):
        """A forward pass alone, as an evaluator wants it."""
        self.model.eval()
        with torch.autocast(self.device, torch.bfloat16, self.device != "cpu"):
            logits, _ = self.model(x.contiguous(memory_format=torch.channels_last))
        self.model.train()
        return F.cross_entropy(logits.float(), y, reduction="none")

    @torch.no_grad()
    def accuracy(self, x, y):
        """Top-1 and top-5 as fractions of 1."""
        self.model.eval()
        one = five = 0
        for i in range(0, len(x), 2000):
            with torch.autocast(self.device, torch.bfloat16, self.device != "cpu"):
                logits, _ = self.model(x[i:i + 2000].contiguous(memory_format=torch.channels_last))
            top = logits.float().topk(5, 1).indices == y[i:i + 2000, None]
            one += top[:, 0].sum().item()
            five += top.sum().item()
        self.model.train()
        return one / len(x), five / len(x)
