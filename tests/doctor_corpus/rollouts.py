"""Networks that are called on a whole rollout."""

TROUBLED = {
    "a whole rollout": (
        {"RO001"},
        {},
        """
        import torch
        def update(policy, obs, actions, batch):
            with torch.no_grad():
                old = policy(obs)
            for start in range(0, len(obs), batch):
                loss = policy(obs[start:start + batch]).mean()
                loss.backward()
        """,
    ),
    "a whole rollout by its attribute": (
        {"RO001"},
        {},
        """
        import torch
        class Agent:
            def learn(self, rollout):
                with torch.inference_mode():
                    values = self.critic(rollout.obs)
                for index in sampler:
                    self.loss(rollout.obs[index], values[index]).backward()
        """,
    ),
    "an index of an index": (
        {"RO001"},
        {},
        """
        import numpy as np, torch
        def update(self, obs, returns):
            values = self.critic(obs).detach()
            order = np.arange(len(obs))
            for epoch in range(4):
                np.random.shuffle(order)
                for start in range(0, len(obs), 64):
                    chosen = order[start : start + 64]
                    loss = (self.critic(obs[chosen]) - returns[chosen]).square().mean()
                    loss.backward()
        """,
    ),
    "a whole rollout beside a loader": (
        {"RO001", "TO004"},
        {},
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        class Algorithm:
            def update(self):
                data = self.buffer.get()
                obs, act = data["obs"], data["act"]
                old = self.actor_critic.actor(obs)
                loader = DataLoader(TensorDataset(obs, act), batch_size=64, shuffle=True)
                for obs, act in loader:
                    self.update_actor(obs, act)
            def update_actor(self, obs, act):
                self.loss(obs, act).backward()
        """,
    ),
    "a generator of minibatches": (
        {"RO001"},
        {},
        """
        import torch
        from mine import minibatch_generator
        def learn(self, data):
            with torch.no_grad():
                value = self.model.forward(data["obs"], mode="critic")
            for batch in minibatch_generator(data, 64):
                self.loss(batch, value).backward()
        """,
    ),
    "every timestep of a buffer": (
        {"RO001"},
        {},
        """
        def train(self):
            logprob, _ = self.actor.evaluate_actions(
                self.buffer.obs[:-1].reshape(-1, *self.buffer.obs.shape[2:]), self.buffer.actions.reshape(-1, 3)
            )
        """,
    ),
    "epochs without minibatches": (
        {"RO002"},
        {},
        """
        import torch
        class PPO:
            def update(self):
                old_states = torch.stack(self.buffer.states, dim=0).detach()
                for _ in range(self.K_epochs):
                    logprobs, values = self.policy.evaluate(old_states)
                    loss = (logprobs + values).mean()
                    loss.backward()
        """,
    ),
}

INNOCENT = {
    "a function that takes its values part by part": (
        {},
        """
        import torch
        net = torch.nn.Conv2d(4, 32, 8)
        def value(states, size):
            return torch.cat([net(states[k : k + size]) for k in range(0, len(states), size)])
        def update(states):
            old = value(states, 512)
            for batch in states.split(64):
                net(batch).mean().backward()
        """,
    ),
    "a random sample, which is no rollout": (
        {},
        """
        import random
        import numpy as np, torch
        net = torch.nn.Conv2d(4, 32, 8)
        def mutate(archive):
            chosen = random.sample(archive, 100)
            states = torch.from_numpy(np.array([state for state, _ in chosen]))
            old = net(states)
            for k in range(10):
                net(states[k : k + 1]).sum().backward()
        """,
    ),
    "a rollout in chunks": (
        {},
        """
        import torch
        from rlrepro.fixes import in_chunks
        def update(policy, obs, batch):
            with torch.no_grad():
                old = in_chunks(policy, obs, size=batch)
            for start in range(0, len(obs), batch):
                policy(obs[start:start + batch]).mean().backward()
        """,
    ),
    "a rollout in a loop": (
        {},
        """
        import torch
        def update(policy, obs, batch):
            with torch.no_grad():
                old = [policy(chunk) for chunk in obs.split(batch)]
            for chunk in obs.split(batch):
                policy(chunk).mean().backward()
        """,
    ),
    "targets of each minibatch": (
        {},
        """
        import torch
        def update(critic, batches, rows):
            for index in batches:
                with torch.no_grad():
                    target = critic(rows[index])
                learn(rows[index], target).backward()
        """,
    ),
    "evaluation without gradients": (
        {},
        "import torch\ndef act(policy, obs):\n    with torch.no_grad():\n        return policy(obs)",
    ),
    "something else than a network": (
        {},
        """
        import torch
        def update(data, batch):
            with torch.no_grad():
                n = len(data)
            for start in range(0, n, batch):
                learn(data[start:start + batch])
        """,
    ),
    "one observation of each environment": (
        {},
        """
        import torch
        def collect(self, obs, envs):
            with torch.no_grad():
                output = self.model(obs)
            actions = [output[k] for k in range(len(envs))]
            return [obs[k] for k in envs], actions
        """,
    ),
    "an environment is no network": (
        {},
        """
        import torch
        def rollout(env, actions, memory, optimizer):
            with torch.no_grad():
                env.step(actions)
            for start in range(0, 10, 2):
                loss(actions[start : start + 2]).backward()
        """,
    ),
    "agents by their number": (
        {},
        """
        import torch
        def train(self, obs):
            values = self.critic(obs)
            for k in range(self.agents):
                self.loss(obs[k], values[k]).backward()
        """,
    ),
    "a sample of a replay buffer, several times": (
        {},
        """
        import torch
        def update(self):
            for epoch in range(10):
                states = torch.stack([each.state for each in self.memory.sample(64)])
                self.critic(states).mean().backward()
        """,
    ),
    "a function that takes its own minibatches": (
        {},
        """
        import torch
        net = torch.nn.Conv2d(4, 32, 8)
        def quick_policy(obs):
            for part in obs.split(64):
                net(part).mean().backward()
        def update(obs, optimizer):
            quick_policy(obs)
            for batch in obs.split(64):
                net(batch).mean().backward()
        """,
    ),
}
