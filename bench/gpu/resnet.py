"""ResNet-18 for 32 x 32 pictures, and one training step of it as a CUDA graph.

At batches of 128 the step is bound by launching kernels, not by computing: captured once and
replayed it takes a third of the time. Batches of another size (an epoch's last) run uncaptured.
"""
import torch
from torch import nn
from torch.nn import functional as F


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
    """forward gives logits and the 512 numbers before the last layer."""

    def __init__(self, classes):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64),
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


class Trainer:
    """SGD with Nesterov momentum; the learning rate is a tensor, so that a graph can follow it."""

    def __init__(self, classes, batch, shape, seed, device, momentum=.9, decay=5e-4):
        torch.manual_seed(seed)
        self.device = device
        self.model = ResNet18(classes).to(self.device).to(memory_format=torch.channels_last)
        self.params = [p for p in self.model.parameters()]
        self.speed = [torch.zeros_like(p) for p in self.params]
        self.momentum, self.decay = momentum, decay
        self.lr = torch.zeros((), device=self.device)
        self.batch, self.graph = batch, None
        self.x = torch.zeros((batch,) + shape, device=self.device)
        self.y = torch.zeros(batch, dtype=torch.long, device=self.device)
        self.w = torch.ones(batch, device=self.device)

    def _step(self, x, y, w):
        with torch.autocast(self.device, torch.bfloat16, cache_enabled=False):
            logits, e = self.model(x.contiguous(memory_format=torch.channels_last))
        loss = F.cross_entropy(logits.float(), y, reduction="none")
        g = list(torch.autograd.grad((loss * w).mean(), self.params))
        with torch.no_grad():
            torch._foreach_add_(g, self.params, alpha=self.decay)
            torch._foreach_mul_(self.speed, self.momentum)
            torch._foreach_add_(self.speed, g)
            torch._foreach_add_(g, self.speed, alpha=self.momentum)
            torch._foreach_mul_(g, self.lr)
            torch._foreach_sub_(self.params, g)
        return loss.detach(), e.detach()

    def _capture(self):
        # Warming up on a side stream changes weights and running means: put them back after it.
        kept = [t.detach().clone() for t in self._everything()]
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
            for t, k in zip(self._everything(), kept):
                t.copy_(k)

    def _everything(self):
        return self.params + self.speed + list(self.model.buffers())

    def step(self, x, y, w):
        """One step; losses and embeddings of the rows, valid until the next call but one."""
        if len(x) != self.batch or self.device == "cpu":
            return self._step(x.to(self.device), y.to(self.device), w.to(self.device))
        if self.graph is None:
            self._capture()
        self.x.copy_(x, non_blocking=True)
        self.y.copy_(y, non_blocking=True)
        self.w.copy_(w, non_blocking=True)
        self.graph.replay()
        return self.out[0].clone(), self.out[1].clone()

    @torch.no_grad()
    def losses(self, x, y):
        """A forward pass alone, as an evaluator wants it."""
        self.model.eval()
        with torch.autocast(self.device, torch.bfloat16):
            logits, _ = self.model(x.contiguous(memory_format=torch.channels_last))
        self.model.train()
        return F.cross_entropy(logits.float(), y, reduction="none")

    @torch.no_grad()
    def accuracy(self, x, y):
        """Top-1 and top-5 as fractions of 1."""
        self.model.eval()
        one = five = 0
        for i in range(0, len(x), 2000):
            with torch.autocast(self.device, torch.bfloat16):
                logits, _ = self.model(x[i:i + 2000].contiguous(memory_format=torch.channels_last))
            top = logits.float().topk(5, 1).indices == y[i:i + 2000, None]
            one += top[:, 0].sum().item()
            five += top.sum().item()
        self.model.train()
        return one / len(x), five / len(x)
