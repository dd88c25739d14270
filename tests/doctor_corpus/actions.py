"""Large action spaces."""

TROUBLED = {
    "a large space in TorchRL": (
        {"LA001"},
        {},
        """
        from gymnasium import spaces
        from torchrl.envs import GymEnv
        ITEMS = 30_000
        space = spaces.Discrete(ITEMS)
        env = GymEnv("Shop-v0")
        """,
    ),
    "one-hot vectors in a buffer": (
        {"LA002"},
        {},
        """
        import torch.nn.functional as F
        def store(buffer, state, action):
            one_hot = F.one_hot(action, num_classes=20000)
            buffer.add(state, one_hot)
        """,
    ),
    "one-hot vectors in a transition": (
        {"LA002"},
        {},
        "from torch.nn.functional import one_hot\nN = 5000\nmemory.append({'action': one_hot(action, N), 'reward': r})",
    ),
    "a large space in Pearl": (
        {"LA003"},
        {},
        """
        import torch
        from pearl.utils.instantiations.spaces.discrete_action import DiscreteActionSpace
        space = DiscreteActionSpace([torch.tensor([i]) for i in range(27_000)])
        """,
    ),
}

INNOCENT = {
    "a small space": (
        {},
        "from gymnasium import spaces\nfrom torchrl.envs import GymEnv\nspaces.Discrete(6)\nenv = GymEnv('Pong-v5')",
    ),
    "categorical actions": (
        {},
        """
        from gymnasium import spaces
        from torchrl.envs import GymEnv
        spaces.Discrete(30_000)
        env = GymEnv("Shop-v0", categorical_action_encoding=True)
        """,
    ),
    "one-hot labels of ten classes": (
        {},
        "import torch.nn.functional as F\nbuffer.add(F.one_hot(labels, num_classes=10))",
    ),
    "one-hot vectors that are not stored": (
        {},
        "import torch.nn.functional as F\nloss = (F.one_hot(actions, num_classes=20000) * q).sum()",
    ),
    "a small space in Pearl": (
        {},
        """
        import torch
        from pearl.utils.instantiations.spaces.discrete_action import DiscreteActionSpace
        DiscreteActionSpace([torch.tensor([i]) for i in range(4)])
        """,
    ),
}
