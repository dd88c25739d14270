"""TorchRL: samplers of slices, and a parent that asks its workers."""

OLD, NEW = {"torchrl": "0.6.0"}, {"torchrl": "0.14.1"}

TROUBLED = {
    "sampler of 0.6.0": (
        {"TR001", "TR003"},
        OLD,
        """
        from torchrl.data import ReplayBuffer, SliceSampler
        buffer = ReplayBuffer(storage=s, sampler=SliceSampler(slice_len=4, end_key="done"), batch_size=32)
        buffer.extend(data)
        for _ in range(100):
            batch = buffer.sample()
        """,
    ),
    "the sampler of TD-MPC2": (
        {"TR002", "TR005"},
        NEW,
        """
        from torchrl.data.replay_buffers import ReplayBuffer
        from torchrl.data.replay_buffers.samplers import SliceSampler
        class Buffer:
            def __init__(self, cfg):
                self._sampler = SliceSampler(
                    num_slices=cfg.batch_size, end_key=None, traj_key="episode", cache_values=cfg.multitask
                )
            def _reserve(self, storage):
                return ReplayBuffer(storage=storage, sampler=self._sampler, batch_size=64)
        """,
    ),
    "ids": (
        {"TR002", "TR005"},
        NEW,
        "from torchrl.data.replay_buffers.samplers import SliceSampler\nSliceSampler(slice_len=4, traj_key='episode')",
    ),
    "only read": (
        {"TR003"},
        NEW,
        """
        from torchrl.data import ReplayBuffer, SliceSampler
        sampler = SliceSampler(num_slices=8, end_key=("next", "done"))
        rb = ReplayBuffer(storage=storage, sampler=sampler, batch_size=64)
        while True:
            learn(rb.sample(64))
        """,
    ),
    "a cache in a loop that writes": (
        {"TR004"},
        NEW,
        """
        from torchrl.data import TensorDictReplayBuffer, SliceSampler
        rb = TensorDictReplayBuffer(storage=s, sampler=SliceSampler(slice_len=8, end_key="done", cache_values=True))
        for step in range(1000):
            rb.extend(collect())
            learn(rb.sample(256))
        """,
    ),
    "a cache in an agent's buffer": (
        {"TR004"},
        NEW,
        """
        from torchrl.data import ReplayBuffer, SliceSampler
        class Agent:
            def __init__(self):
                self.sampler = SliceSampler(slice_len=8, end_key="done", cache_values=True)
                self.buffer = ReplayBuffer(storage=s, sampler=self.sampler, batch_size=64)
            def train(self):
                for episode in episodes:
                    self.buffer.add(episode)
                    for _ in range(10):
                        self.update(self.buffer.sample())
        """,
    ),
    "writing and sampling in turn": (
        {"TR005"},
        NEW,
        """
        import torchrl.data as td
        rb = td.ReplayBuffer(storage=s, sampler=td.SliceSampler(slice_len=8, end_key="done"), batch_size=64)
        while steps < total:
            rb.extend(frames)
            batch = rb.sample()
        """,
    ),
    "a cache in an agent that stores and learns": (
        {"TR004"},
        NEW,
        """
        from torchrl.data import LazyTensorStorage, ReplayBuffer, SliceSampler

        class Agent:
            def __init__(self):
                sampler = SliceSampler(slice_len=4, end_key="done", cache_values=True)
                self.buffer = ReplayBuffer(storage=LazyTensorStorage(1000), sampler=sampler)

            def store(self, rows):
                self.buffer.extend(rows)

            def learn(self):
                return self.buffer.sample(32)
        """,
    ),
    "no cache in an agent that stores and learns": (
        {"TR005"},
        NEW,
        """
        from torchrl.data import LazyTensorStorage, ReplayBuffer, SliceSampler

        class Agent:
            def __init__(self):
                sampler = SliceSampler(slice_len=4, end_key="done")
                self.buffer = ReplayBuffer(storage=LazyTensorStorage(1000), sampler=sampler)

            def store(self, rows):
                self.buffer.extend(rows)

            def learn(self):
                return self.buffer.sample(32)
        """,
    ),
    "a parent that asks its workers": (
        {"TR006"},
        {"torchrl": "0.13.3"},
        """
        from torchrl.envs import GymEnv, ParallelEnv
        env = ParallelEnv(8, lambda: GymEnv("CartPole-v1", categorical_action_encoding=True))
        """,
    ),
    "a parent without buffers that asks its workers' events": (
        {"TR006"},
        {"torchrl": "0.10.1"},
        "from torchrl.envs import ParallelEnv\nenv = ParallelEnv(8, make_env, use_buffers=False)",
    ),
    "a parent that asks its workers' events": (
        {"TR006"},
        {"torchrl": "0.10.1"},
        """
        from torchrl.envs import GymEnv, ParallelEnv
        env = ParallelEnv(8, lambda: GymEnv("CartPole-v1", categorical_action_encoding=True))
        """,
    ),
}

INNOCENT = {
    "the incremental sampler": (
        OLD,
        """
        from rlrepro.fixes import IncrementalSliceSampler as SliceSampler
        from torchrl.data import ReplayBuffer
        rb = ReplayBuffer(storage=s, sampler=SliceSampler(slice_len=4, traj_key="episode"), batch_size=64)
        for _ in range(10):
            rb.extend(x)
            rb.sample()
        """,
    ),
    "a cache where nothing is written": (
        NEW,
        """
        from torchrl.data import ReplayBuffer, SliceSampler
        rb = ReplayBuffer(storage=s, sampler=SliceSampler(slice_len=4, end_key="d", cache_values=True), batch_size=64)
        rb.extend(dataset)
        for _ in range(1000):
            rb.sample()
        """,
    ),
    "filled in one loop and sampled in another": (
        NEW,
        """
        from torchrl.data import ReplayBuffer, SliceSampler
        rb = ReplayBuffer(storage=s, sampler=SliceSampler(slice_len=4, end_key="d", cache_values=True), batch_size=64)
        for episode in dataset:
            rb.extend(episode)
        for _ in range(1000):
            rb.sample()
        """,
    ),
    "a random sampler": (
        OLD,
        """
        from torchrl.data import ReplayBuffer, RandomSampler
        rb = ReplayBuffer(storage=s, sampler=RandomSampler(), batch_size=64)
        for _ in range(10):
            rb.extend(x)
            rb.sample()
        """,
    ),
    "sample of something else": (
        NEW,
        "import random\nfor _ in range(3):\n    random.sample(population, 3)\n    names.extend(more)",
    ),
    "buffers of one name in two functions": (
        NEW,
        """
        from torchrl.data import LazyTensorStorage, ReplayBuffer, SliceSampler

        def offline(rows):
            sampler = SliceSampler(slice_len=4, end_key="done", cache_values=True)
            buffer = ReplayBuffer(storage=LazyTensorStorage(1000), sampler=sampler)
            buffer.extend(rows)
            for _ in range(100):
                buffer.sample(32)

        def online(rows):
            buffer = ReplayBuffer(storage=LazyTensorStorage(1000))
            for _ in range(100):
                buffer.extend(rows)
                buffer.sample(32)
        """,
    ),
    "a data set that an agent loads once": (
        NEW,
        """
        from torchrl.data import LazyTensorStorage, ReplayBuffer, SliceSampler

        class Agent:
            def __init__(self, rows):
                sampler = SliceSampler(slice_len=4, end_key="done", cache_values=True)
                self.buffer = ReplayBuffer(storage=LazyTensorStorage(1000), sampler=sampler)
                self.buffer.extend(rows)

            def learn(self):
                return self.buffer.sample(32)
        """,
    ),
    "a parent that sleeps": (
        {"torchrl": "0.11.1"},
        "from torchrl.envs import ParallelEnv\nenv = ParallelEnv(8, make_env)",
    ),
    "a parent without buffers that sleeps": (
        {"torchrl": "0.7.2"},
        "from torchrl.envs import ParallelEnv\nenv = ParallelEnv(8, make_env, use_buffers=False)",
    ),
    "a parent that waits on pipes": (
        NEW,
        "from torchrl.envs import ParallelEnv\nenv = ParallelEnv(8, make_env, use_buffers=False)",
    ),
    "environments of a release that nobody names": (
        {},
        "from torchrl.envs import ParallelEnv\nenv = ParallelEnv(8, make_env)",
    ),
}
