"""Tensors of lists, anomaly detection, validation, loaders of tensors."""

TROUBLED = {
    "a tensor of appended states": (
        {"TO001"},
        {},
        """
        import random, torch
        class Memory:
            def sample(self, size):
                s_lst, r_lst = [], []
                for transition in random.sample(self.memory, size):
                    s, a, r, s_prime, done = transition
                    s_lst.append(s)
                    r_lst.append([r])
                return torch.tensor(s_lst, dtype=torch.float), torch.tensor(r_lst)
        """,
    ),
    "a tensor of states by a single letter": (
        {"TO001"},
        {},
        """
        import torch
        def learn(memory):
            return torch.tensor([transition.s for transition in memory], dtype=torch.float)
        """,
    ),
    "a tensor of transposed transitions": (
        {"TO001"},
        {},
        """
        import random, torch
        def learn(memory):
            states, actions, rewards = zip(*random.sample(memory, 32))
            states = torch.FloatTensor(states)
            rewards = torch.FloatTensor(rewards)
        """,
    ),
    "a tensor of what the environment returns": (
        {"TO001"},
        {},
        """
        import torch
        def collect(env, policy):
            batch_obs = []
            obs, _ = env.reset()
            for _ in range(2048):
                batch_obs.append(obs)
                obs, reward, done, truncated, _ = env.step(policy(obs))
            return torch.as_tensor(batch_obs, dtype=torch.float32)
        """,
    ),
    "anomaly detection": ({"TO002"}, {}, "import torch\ntorch.autograd.set_detect_anomaly(True)"),
    "validation assigned": (
        {"TO003"},
        {},
        "from torch.distributions import Normal\nNormal.set_default_validate_args = False",
    ),
    "a loader of tensors that are split": (
        {"TO004"},
        {},
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset, random_split
        def fit(model, x, y, optimizer):
            train, test = random_split(TensorDataset(x, y), [900, 100])
            for a, b in DataLoader(train, batch_size=64, shuffle=True):
                loss(model(a), b).backward()
        """,
    ),
}

INNOCENT = {
    "an array of the list": (
        {},
        "import numpy as np, torch\nstates = []\nstates.append(state)\nx = torch.tensor(np.array(states))",
    ),
    "lists of numbers": (
        {},
        """
        import torch
        def learn(memory):
            states, actions, rewards = zip(*memory)
            return torch.tensor(rewards), torch.tensor([each.done for each in memory]), torch.tensor([0.5])
        def keep(frames):
            indices, is_kept_frame = zip(*frames)
            return torch.tensor(is_kept_frame)
        """,
    ),
    "what a sampler made an array of": (
        {},
        """
        import numpy as np, torch
        class Memory:
            def sample(self, size):
                states, rewards = zip(*self.memory)
                return np.stack(states), np.array(rewards)
        def learn(memory):
            states, rewards = memory.sample(32)
            return torch.tensor(states)
        """,
    ),
    "a list of tensors": (
        {},
        "import torch\nstates = []\nstate = torch.zeros(3)\nstates.append(state)\nx = torch.tensor(states)",
    ),
    "anomaly detection for debugging": (
        {},
        """
        from torch import autograd
        if args.debug:
            autograd.set_detect_anomaly(True)
        autograd.set_detect_anomaly(False)
        """,
    ),
    "validation called": (
        {},
        "from torch.distributions import Normal\nNormal.set_default_validate_args(False)",
    ),
    "a loader of files": (
        {},
        """
        import torch
        from torch.utils.data import DataLoader
        for batch in DataLoader(ImageFolder("images"), batch_size=64, shuffle=True):
            loss(batch).backward()
        """,
    ),
}
