"""A Loader, a Dataset and samplers in the hands of Lightning, Accelerate and transformers' Trainer themselves,
where they are installed (test_py_habits.py does without them what they do). Every test says what it skips for."""

import functools
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
import warnings

import kit
from kit import larder, torch
from torch.utils.data import DataLoader

try:
    import lightning.pytorch as pl
except ImportError:
    try:
        import pytorch_lightning as pl
    except ImportError:
        pl = None
try:
    import accelerate
    from accelerate.data_loader import BatchSamplerShard
    from accelerate.state import AcceleratorState, GradientState
except ImportError:
    accelerate = None
try:
    import transformers
except ImportError:
    transformers = None

SOURCE = "mem:?n=230&h=8&w=8&c=3&classes=10"
BATCH, BATCHES = 25, 10


def loader(recipe="minio", **more):
    return larder.Loader(SOURCE, BATCH, recipe=recipe, threads=2, **more)


def epochs_of(n, recipe="minio"):
    with loader(recipe) as l:
        return [[b.ids.tolist() for b in l] for _ in range(n)]


def samples(**more):
    return larder.Dataset(SOURCE, augment="flip", ids=True, **more)


def without_cuda(test):
    """Processes are forked there, which no process that has used CUDA may do: in one that sees no device."""

    @functools.wraps(test)
    def run(self):
        if not torch.cuda.is_available():
            return test(self)
        name = f"{type(self).__name__}.{self._testMethodName}"
        env = dict(os.environ, CUDA_VISIBLE_DEVICES="")
        done = subprocess.run([sys.executable, os.path.abspath(__file__), name], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout.decode())

    return run


def save(path, what):
    with open(path, "wb") as f:
        pickle.dump(what, f)


def loaded(path):
    with open(path, "rb") as f:
        return pickle.load(f)


if pl is not None:

    class Net(pl.LightningModule):
        """Notes the ids it is trained on; of a Loader it is told, it reports."""

        def __init__(self, reports_to=None):
            super().__init__()
            self.net = torch.nn.Linear(192, 10)
            self.reports_to, self.seen, self.validated = reports_to, [], 0

        def training_step(self, batch, i):
            x, y = batch[0], batch[1]
            ids = batch.ids if isinstance(batch, larder.Batch) else batch[2]
            self.seen.append(ids.tolist())
            loss = torch.nn.functional.cross_entropy(self.net(x.flatten(1)), y, reduction="none")
            if self.reports_to is not None:
                self.reports_to.report(loss=loss, batch=batch)
            return loss.mean()

        def validation_step(self, batch, i):
            self.validated += 1
            self.log("val", self.net(batch[0].flatten(1)).mean())

        def predict_step(self, batch, i):
            return self.net(batch[0].flatten(1)).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    class InRanks(Net):
        """Opens its loader where rank and world are known."""

        def __init__(self, how, folder):
            super().__init__()
            self.how, self.folder = how, folder

        def train_dataloader(self):
            if self.how == "loader":
                return loader()
            if self.how == "sampler":
                return DataLoader(samples(), BATCH, sampler=larder.Sampler(SOURCE, batch_size=BATCH))
            if self.how == "batch sampler":
                return DataLoader(samples(), batch_sampler=larder.BatchSampler(SOURCE, BATCH))
            return DataLoader(samples(), BATCH, shuffle=True)

        def on_train_end(self):
            save(os.path.join(self.folder, str(self.global_rank)), self.seen)


@unittest.skipIf(pl is None, "no Lightning")
class Lightning(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        warnings.simplefilter("ignore")

    def trainer(self, **more):
        conf = dict(accelerator="cpu", devices=1, logger=False, enable_progress_bar=False,
                    enable_model_summary=False, enable_checkpointing=False,
                    default_root_dir=self.folder.name)
        conf.update(more)
        return pl.Trainer(**conf)

    def test_fit_and_validate(self):
        for recipe in ("minio", "shade"):
            with loader(recipe) as train, loader(shuffle=False) as val:
                net = Net(train)
                self.trainer(max_epochs=3).fit(net, train, val)
                self.assertEqual(net.validated, 2 + 3 * BATCHES)  # two before training, as a check
                self.assertEqual(len(net.seen), 3 * BATCHES)
                self.assertEqual(train.stats()["reports_refused"], 0)
                if recipe == "minio":
                    self.assertEqual(net.seen, sum(epochs_of(3), []))
                trainer = self.trainer()
                trainer.validate(net, val, verbose=False)
                self.assertEqual(len(trainer.predict(net, val)), BATCHES)

    def test_parts_of_epochs(self):
        want = epochs_of(2)
        with loader() as train, loader(shuffle=False) as val:
            net = Net()
            self.trainer(max_epochs=2, limit_train_batches=4, accumulate_grad_batches=2).fit(net, train)
            self.assertEqual(net.seen, want[0][:4] + want[1][:4])
            self.trainer(fast_dev_run=2).fit(Net(), train, val)
        with loader() as train, loader(shuffle=False) as val:
            net = Net()
            self.trainer(max_epochs=1, val_check_interval=3).fit(net, train, val)
            self.assertEqual(net.seen, want[0])

    def test_overfit(self):
        with loader(shuffle=False) as train:
            net = Net()
            self.trainer(max_epochs=2, overfit_batches=3).fit(net, train)
            self.assertEqual(net.seen[:3], net.seen[3:])
        with loader() as train, self.assertRaises(ValueError):
            self.trainer(max_epochs=2, overfit_batches=3).fit(Net(), train)

    def test_checkpoint_at_an_epochs_end(self):
        path = os.path.join(self.folder.name, "a.ckpt")
        with loader() as train:
            trainer = self.trainer(max_epochs=2)
            trainer.fit(Net(), train)
            trainer.save_checkpoint(path)
        with loader() as train:
            net = Net()
            self.trainer(max_epochs=3).fit(net, train, ckpt_path=path)
            self.assertEqual(net.seen, epochs_of(3)[2])

    def test_checkpoint_in_the_middle(self):
        """Lightning from 2.2 on saves the loader's state by itself, and goes on at the very next batch."""
        if not hasattr(pl.utilities.combined_loader.CombinedLoader, "_state_dicts"):
            self.skipTest(f"Lightning {pl.__version__} saves no states of loaders")
        for step in (4, BATCHES + 3):
            keep = pl.callbacks.ModelCheckpoint(dirpath=self.folder.name, filename=str(step),
                                                every_n_train_steps=step, save_top_k=-1)
            with loader() as train:
                self.trainer(max_steps=step, enable_checkpointing=True, callbacks=[keep]).fit(Net(), train)
            with loader() as train:
                net = Net()
                path = os.path.join(self.folder.name, f"{step}.ckpt")
                self.trainer(max_epochs=3).fit(net, train, ckpt_path=path)
                self.assertEqual(net.seen, sum(epochs_of(3), [])[step:])

    def test_data_loaders(self):
        want = sum(epochs_of(2), [])
        net = Net()
        self.trainer(max_epochs=2).fit(
            net, DataLoader(samples(), BATCH, shuffle=True, num_workers=2, persistent_workers=True)
        )
        self.assertEqual(sorted(sum(net.seen[:BATCHES], [])), list(range(230)))
        net = Net()
        order = larder.BatchSampler(SOURCE, BATCH)
        self.trainer(max_epochs=2).fit(net, DataLoader(samples(), batch_sampler=order, num_workers=1))
        self.assertEqual(net.seen, want)
        net = Net()
        one = larder.Sampler(SOURCE, batch_size=BATCH)
        self.trainer(max_epochs=2).fit(net, DataLoader(samples(), BATCH, sampler=one))
        self.assertEqual(net.seen, want)

    @unittest.skipUnless(torch.cuda.is_available(), "no CUDA device")
    def test_on_a_gpu(self):
        """Lightning moves batches; with device= there is nothing to move."""
        want = sum(epochs_of(2), [])
        for where in ({}, {"device": "cuda"}):
            with loader(**where) as train, loader(shuffle=False, **where) as val:
                net = Net(train)
                self.trainer(max_epochs=2, accelerator="gpu").fit(net, train, val)
                self.assertEqual(net.seen, want)

    def ranks(self, how, **more):
        self.trainer(max_epochs=2, devices=2, strategy="ddp_fork", **more).fit(
            InRanks(how, self.folder.name)
        )
        return [loaded(os.path.join(self.folder.name, str(r))) for r in range(2)]

    @without_cuda
    def test_two_processes(self):
        for how in ("loader", "sampler", "plain"):
            seen = self.ranks(how)
            self.assertEqual(len(seen[0]), len(seen[1]), how)
            half = len(seen[0]) // 2
            for epoch in (0, 1):
                ids = sum((sum(s[epoch * half:][:half], []) for s in seen), [])
                self.assertEqual(sorted(set(ids)), list(range(230)), how)
                if how != "plain":  # torch's DistributedSampler repeats samples to fill up
                    self.assertEqual(len(ids), 230, how)
        seen = self.ranks("batch sampler", use_distributed_sampler=False)
        self.assertEqual(sorted(sum(seen[0][:5] + seen[1][:5], [])), list(range(230)))


def _in_rank(folder):
    """What a process of two does; in a function of its own for the launcher."""
    a = accelerate.Accelerator(cpu=True)
    own = loader()
    l = a.prepare(own)
    seen = [b.ids.tolist() for b in l]
    refused = ""
    try:
        a.prepare_data_loader(own)
    except TypeError as e:
        refused = str(e)
    order = larder.BatchSampler(SOURCE, BATCH, rank=0, world=1)
    divided = [ids.tolist() for _, _, ids in a.prepare(DataLoader(samples(), batch_sampler=order))]
    skipped = [b.ids.tolist() for b in accelerate.skip_first_batches(loader(), 2)]
    save(os.path.join(folder, str(a.process_index)), (seen, refused, divided, skipped))


@unittest.skipIf(accelerate is None, "no Accelerate")
class Accelerate(unittest.TestCase):
    def setUp(self):
        AcceleratorState._reset_state(True)
        GradientState._reset_state()

    def test_prepare_and_accumulate(self):
        a = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=4)
        net = torch.nn.Linear(192, 10)
        best = torch.optim.SGD(net.parameters(), 0.1)
        with loader("shade") as l:
            net, best, prepared = a.prepare(net, best, l)
            self.assertIs(prepared, l)
            for epoch in range(2):
                prepared.set_epoch(epoch)
                for batch in prepared:
                    with a.accumulate(net):
                        x, y = batch
                        losses = torch.nn.functional.cross_entropy(
                            net(x.flatten(1)), y, reduction="none"
                        )
                        l.report(loss=losses)
                        a.backward(losses.mean())
                        best.step()
                        best.zero_grad()
                self.assertEqual(len(a.gather_for_metrics(y)), len(y))
            self.assertEqual(l.stats()["reports_refused"], 0)

    def test_save_state(self):
        a = accelerate.Accelerator(cpu=True)
        with tempfile.TemporaryDirectory() as folder, loader() as l, loader() as m:
            a.register_for_checkpointing(l)
            it = iter(l)
            for _ in range(3):
                next(it)
            a.save_state(folder, safe_serialization=False)
            rest = [b.ids.tolist() for b in it]
            a._custom_objects[0] = m
            a.load_state(folder)
            self.assertEqual([b.ids.tolist() for b in m], rest)

    def test_skip_first_batches(self):
        want = epochs_of(4)
        a = accelerate.Accelerator(cpu=True)
        for skip in (accelerate.skip_first_batches, a.skip_first_batches):
            with loader() as l:
                rest = skip(l, 3)
                self.assertEqual(len(rest), BATCHES - 3)
                for epoch in (0, 1):
                    batches = list(rest)
                    self.assertIsInstance(batches[0], larder.Batch)
                    self.assertEqual([b.ids.tolist() for b in batches], want[epoch][3:])
                self.assertEqual([b.ids.tolist() for b in l], want[2])
                l.set_epoch(1)
                self.assertEqual([b.ids.tolist() for b in skip(l, 9)], want[1][9:])
        with loader("shade") as l:
            for batch in accelerate.skip_first_batches(l, 3):
                l.report(loss=torch.ones(batch.n))  # it is the batch at hand
            l.state_dict()  # hands over what is under way
            self.assertEqual(l.stats()["reports"], BATCHES - 3)

    def test_prepared_by_name(self):
        """prepare_data_loader looks one batch ahead, so a report says which batch it means."""
        with loader("shade") as l:
            a = accelerate.Accelerator(cpu=True)
            prepared = a.prepare_data_loader(l)
            for batch in prepared:
                l.report(loss=torch.ones(batch.n), batch=batch)
            self.assertEqual(l.stats()["reports_refused"], 0)
            with self.assertRaisesRegex(TypeError, "accelerator.prepare"):
                BatchSamplerShard(l.batch_sampler, 2, 0)

    def test_data_loaders(self):
        want = epochs_of(4)
        a = accelerate.Accelerator(cpu=True)
        plain = a.prepare(DataLoader(samples(), BATCH, shuffle=True, num_workers=1))
        self.assertEqual(sorted(i for _, _, ids in plain for i in ids.tolist()), list(range(230)))
        order = larder.BatchSampler(SOURCE, BATCH)
        prepared = a.prepare(DataLoader(samples(), batch_sampler=order))
        self.assertEqual([ids.tolist() for _, _, ids in prepared], want[0])
        prepared.set_epoch(2)
        self.assertEqual([ids.tolist() for _, _, ids in prepared], want[2])
        rest = a.skip_first_batches(prepared, 4)
        self.assertEqual([ids.tolist() for _, _, ids in rest], want[3][4:])
        one = larder.Sampler(SOURCE, batch_size=BATCH)
        prepared = a.prepare(DataLoader(samples(), BATCH, sampler=one))
        self.assertEqual([ids.tolist() for _, _, ids in prepared], want[0])

    @unittest.skipUnless(torch.cuda.is_available(), "no CUDA device")
    def test_on_a_gpu(self):
        a = accelerate.Accelerator()
        with loader("shade", device=a.device) as l:
            for batch in accelerate.skip_first_batches(a.prepare(l), 3):
                self.assertTrue(batch.x.is_cuda)
                l.report(loss=batch.x.flatten(1).sum(1))
            self.assertEqual(l.stats()["reports_refused"], 0)

    @without_cuda
    def test_two_processes(self):
        AcceleratorState._reset_state(True)
        with tempfile.TemporaryDirectory() as folder:
            accelerate.debug_launcher(_in_rank, (folder,), 2)
            seen, refused, divided, skipped = zip(*(loaded(os.path.join(folder, r)) for r in "01"))
        self.assertEqual(sorted(sum(seen[0] + seen[1], [])), list(range(230)))
        self.assertIn("accelerator.prepare", refused[0])
        self.assertEqual(set(sum(divided[0] + divided[1], [])), set(range(230)))
        self.assertEqual(skipped[0], seen[0][2:])
        self.assertEqual(skipped[1], seen[1][2:])


class Numbered(torch.utils.data.Dataset):
    """What a program that uses transformers has: samples that are dicts."""

    def __len__(self):
        return 230

    def __getitem__(self, i):
        return {"x": torch.full((192,), i / 230), "labels": i % 10, "number": i}


class Inputs:
    """What Trainer takes for a DataLoader, over a Loader: batches that are dicts."""

    def __init__(self, l):
        self.loader = l

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        for batch in self.loader:
            yield dict(batch.data)


class Noting(torch.nn.Module):
    """Notes the numbers it is trained on."""

    def __init__(self):
        super().__init__()
        self.line, self.seen = torch.nn.Linear(192, 10), []

    def forward(self, x, labels, number):
        self.seen.append(number.tolist())
        logits = self.line(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


@unittest.skipIf(transformers is None, "no transformers")
class Transformers(unittest.TestCase):
    def trained(self, recipe, workers=0):
        class Trainer(transformers.Trainer):
            def get_train_dataloader(self):
                return Inputs(l)

        with tempfile.TemporaryDirectory() as folder, larder.Loader(
                dataset=Numbered(), batch_size=BATCH, recipe=recipe, workers=workers, seed=3) as l:
            net = Noting()
            how = transformers.TrainingArguments(output_dir=folder, num_train_epochs=3, report_to=[],
                                                 per_device_train_batch_size=BATCH, save_strategy="no",
                                                 disable_tqdm=True, logging_strategy="no", seed=1)
            Trainer(model=net, args=how).train()
            return net.seen, l.figures()

    def test_trainer(self):
        seen, _ = self.trained("minio")
        self.assertEqual(len(seen), 3 * BATCHES)
        for epoch in range(3):
            numbers = sum(seen[epoch * BATCHES:(epoch + 1) * BATCHES], [])
            self.assertEqual(sorted(numbers), list(range(230)))
        with larder.Loader(dataset=Numbered(), batch_size=BATCH, workers=0, seed=3) as l:
            self.assertEqual(seen, [b.data["number"].tolist() for _ in range(3) for b in l])

    def test_reuse(self):
        seen, figures = self.trained("rotate:h=0.5")
        self.assertEqual(len(sum(seen, [])), 3 * 230)
        self.assertGreater(figures["hits"], 0.3 * 230)  # of the last epoch

    @without_cuda
    def test_workers(self):
        self.assertEqual(self.trained("minio", workers=2)[0], self.trained("minio")[0])


if __name__ == "__main__":
    if pl is None and accelerate is None and transformers is None:
        print("skipped: neither Lightning, Accelerate nor transformers is installed")
        sys.exit(77)
    unittest.main()
