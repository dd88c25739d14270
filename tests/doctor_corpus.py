"""Labelled texts for the doctor: with a problem, and innocent ones that look like it.

TROUBLED  title: (codes, releases, text)
INNOCENT  title: (releases, text)
DOUBTFUL  title: (code, files, change): a finding of low confidence, and files after which it has more
"""

OLD_T, NEW_T, KEEPS = {"tianshou": "1.0.0"}, {"tianshou": "1.1.0"}, {"tianshou": "1.2.0"}
OLD_R, NEW_R = {"torchrl": "0.6.0"}, {"torchrl": "0.14.1"}

TROUBLED = {
    # tianshou
    "ppo of 1.0.0": (
        {"TS001"},
        OLD_T,
        "from tianshou.policy import PPOPolicy\npolicy = PPOPolicy(actor, critic, optim)",
    ),
    "ppo of 0.4.11 by its module": (
        {"TS001"},
        {"tianshou": "0.4.11"},
        "from tianshou.policy.modelfree.ppo import PPOPolicy as P\np = P(actor=a, critic=c)",
    ),
    "ppo through the package": ({"TS001"}, OLD_T, "import tianshou as ts\npolicy = ts.policy.PPOPolicy(a, c, o)"),
    "ppo by a star": ({"TS001"}, OLD_T, "from tianshou.policy import *\npolicy = PPOPolicy(a, c, o)"),
    "ppo of a release that is not known": ({"TS001"}, {}, "from tianshou.policy import PPOPolicy\nPPOPolicy(a, c, o)"),
    "a larger batch_size": (
        {"TS002"},
        NEW_T,
        """
        from tianshou.policy import PPOPolicy
        from tianshou.trainer import OnpolicyTrainer
        policy = PPOPolicy(actor=a, critic=c)
        OnpolicyTrainer(policy=policy, batch_size=4096, max_epoch=10)
        """,
    ),
    "a larger batch_size by a constant": (
        {"TS002"},
        {"tianshou": "2.0.1"},
        """
        from tianshou.algorithm import A2C
        from tianshou.trainer import OnPolicyTrainerParams
        BATCH = 2 * 1024
        algorithm = A2C(policy=p, critic=c, optim=o)
        algorithm.run_training(OnPolicyTrainerParams(batch_size=BATCH))
        """,
    ),
    "max_batchsize of none": (
        {"TS003"},
        NEW_T,
        "from tianshou.policy import A2CPolicy\nA2CPolicy(a, c, o, max_batchsize=None)",
    ),
    "batch_size of zero": (
        {"TS003"},
        NEW_T,
        "from tianshou.trainer import onpolicy_trainer\nSIZE = 0\nonpolicy_trainer(p, c, batch_size=SIZE)",
    ),
    "collecting in 1.2.0": (
        {"TS004"},
        KEEPS,
        "from tianshou.data import Collector\nc = Collector(policy, envs, buffer)",
    ),
    "collecting, with a type": (
        {"TS004"},
        {"tianshou": "2.0.1"},
        "from tianshou.data import Collector, CollectStats\ncollector = Collector[CollectStats](policy, envs)",
    ),
    "a large buffer in 2.0.1": (
        {"TS005"},
        {"tianshou": "2.0.1"},
        """
        from tianshou.data import ReplayBuffer
        from tianshou.trainer import OffPolicyTrainerParams
        buffer = ReplayBuffer(1_000_000)
        algorithm.run_training(OffPolicyTrainerParams(training_collector=c, batch_size=256))
        """,
    ),
    "a buffer of a size that is not known, in the high-level API": (
        {"TS005"},
        {"tianshou": "2.0.0"},
        """
        from tianshou.highlevel.config import OffPolicyTrainingConfig
        config = OffPolicyTrainingConfig(max_epochs=10, buffer_size=args.buffer)
        """,
    ),
    # TorchRL
    "sampler of 0.6.0": (
        {"TR001", "TR003"},
        OLD_R,
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
        NEW_R,
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
        NEW_R,
        "from torchrl.data.replay_buffers.samplers import SliceSampler\nSliceSampler(slice_len=4, traj_key='episode')",
    ),
    "only read": (
        {"TR003"},
        NEW_R,
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
        NEW_R,
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
        NEW_R,
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
        NEW_R,
        """
        import torchrl.data as td
        rb = td.ReplayBuffer(storage=s, sampler=td.SliceSampler(slice_len=8, end_key="done"), batch_size=64)
        while steps < total:
            rb.extend(frames)
            batch = rb.sample()
        """,
    ),
    # processes
    "a pool of training runs": (
        {"PT001"},
        {},
        """
        from multiprocessing import Pool
        from stable_baselines3 import PPO
        def train(seed):
            PPO("MlpPolicy", "CartPole-v1", seed=seed).learn(10_000)
        with Pool(8) as pool:
            pool.map(train, range(8))
        """,
    ),
    "processes in a loop": (
        {"PT001"},
        {},
        """
        import torch
        import multiprocessing as mp
        def train(k):
            loss(k).backward()
        def main():
            workers = [mp.Process(target=train, args=(k,)) for k in range(4)]
            for worker in workers:
                worker.start()
        """,
    ),
    "an executor": (
        {"PT001"},
        {},
        """
        import concurrent.futures
        import torch
        def train(seed):
            loss(seed).backward()
        def main():
            with concurrent.futures.ProcessPoolExecutor(max_workers=4) as executor:
                list(executor.map(train, seeds))
        """,
    ),
    "torch's own processes": (
        {"PT001"},
        {},
        """
        import torch.multiprocessing as mp
        import torch
        def train(rank):
            loss(rank).backward()
        def main():
            mp.spawn(train, nprocs=4)
        """,
    ),
    "a context": (
        {"PT001"},
        {},
        """
        import multiprocessing
        from tianshou.algorithm import PPO
        def train(seed):
            PPO(policy=policy, critic=critic, optim=optim).run_training(params)
        context = multiprocessing.get_context("spawn")
        with context.Pool(4) as pool:
            pool.map(train, seeds)
        """,
    ),
    "fork after work": (
        {"PT001", "PT002"},
        {},
        """
        import torch
        from multiprocessing import Pool
        def train(seed):
            loss(seed).backward()
        def main():
            train(0).sum().backward()
            with Pool(4) as pool:
                pool.map(train, range(4))
        """,
    ),
    "fork after learning, with a limit": (
        {"PT002"},
        {},
        """
        import torch, os
        from stable_baselines3 import PPO
        from concurrent.futures import ProcessPoolExecutor
        os.environ["OMP_NUM_THREADS"] = "1"
        def main(model):
            model.learn(1000)
            with ProcessPoolExecutor() as pool:
                pool.map(evaluate, range(4))
        """,
    ),
    "threads set too late": (
        {"PT003"},
        {},
        "import torch\nloss = model(x)\nloss.backward()\ntorch.set_num_threads(1)",
    ),
    "interop threads set too late": (
        {"PT003"},
        {},
        "import torch\ndef main():\n    model(x).backward()\n    torch.set_num_interop_threads(1)",
    ),
    "environments that compute": (
        {"PT004"},
        {},
        """
        import torch
        import gymnasium as gym
        from stable_baselines3.common.vec_env import SubprocVecEnv
        class Learned(gym.Env):
            def reset(self, seed=None, options=None):
                return self.state, {}
            def step(self, action):
                self.state = torch.tanh(self.model(action))
                return self.state, 0, False, False, {}
        envs = SubprocVecEnv([Learned for _ in range(8)])
        """,
    ),
    "asynchronous environments that compute": (
        {"PT004"},
        {},
        """
        import gymnasium, torch
        class World(gymnasium.Env):
            def reset(self, **options): return torch.zeros(3).numpy(), {}
            def step(self, action): return torch.matmul(self.model, action).numpy(), 0.0, False, False, {}
        envs = gymnasium.vector.AsyncVectorEnv([World] * 4)
        """,
    ),
    # actions
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
    # rollouts
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
    "a cache in an agent that stores and learns": (
        {"TR004"},
        {"torchrl": "0.14.1"},
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
        {"torchrl": "0.14.1"},
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
    # shapes that users write
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
    "a target from a registry": (
        {"PT001"},
        {},
        """
        import torch
        from multiprocessing import Pool
        ALGORITHMS = {}
        class Learner:
            def improve(self):
                self.loss().backward()
        def train_one(seed):
            return ALGORITHMS["a"](seed).run()
        with Pool(4) as pool:
            pool.map(train_one, range(4))
        """,
    ),
    "a subclass of Process": (
        {"PT001"},
        {},
        """
        import torch.multiprocessing as mp
        import torch
        class Worker(mp.Process):
            def __init__(self, k):
                super().__init__()
            def run(self):
                self.loss().backward()
        workers = [Worker(k) for k in range(4)]
        """,
    ),
    "a limit that spawned processes do not inherit": (
        {"PT001"},
        {},
        """
        import torch
        import torch.multiprocessing as mp
        def train(k):
            loss(k).backward()
        if __name__ == "__main__":
            torch.set_num_threads(1)
            mp.set_start_method("spawn")
            workers = [mp.Process(target=train, args=(k,)) for k in range(4)]
        """,
    ),
    # tensors
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
    "a variable that nothing reads": ({"PT005"}, {}, 'import os\nos.environ["TORCH_NUM_THREADS"] = "1"\nimport torch'),
    "the same for a child": (
        {"PT005"},
        {},
        'import os, subprocess\nsubprocess.run(command, env=dict(os.environ, TORCH_NUM_THREADS="1"))',
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
    # RLlib
    "a convolutional ppo of RLlib": (
        {"RL001"},
        {"ray": "2.60.0"},
        """
        from ray.rllib.algorithms.ppo import PPOConfig
        from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
        config = (
            PPOConfig()
            .environment("ale_py:ALE/Pong-v5")
            .training(train_batch_size_per_learner=4000, minibatch_size=64)
            .rl_module(model_config=DefaultModelConfig(conv_filters=[[32, 8, 4]]))
        )
        """,
    ),
    "ppo of RLlib with its defaults": (
        {"RL001"},
        {},
        "from ray.rllib.algorithms.ppo import PPOConfig\nconfig = PPOConfig().environment('CartPole-v1')",
    ),
}

INNOCENT = {
    "a trainer whose check is incremental": (
        {"tianshou": "2.0.1"},
        """
        from tianshou.trainer import OffPolicyTrainerParams
        from rlrepro.fixes import incremental_nan_check
        incremental_nan_check()
        algorithm.run_training(OffPolicyTrainerParams(training_collector=c, batch_size=256))
        """,
    ),
    "off-policy training in 1.2.0": (
        {"tianshou": "1.2.0"},
        "from tianshou.trainer import OffpolicyTrainer\nOffpolicyTrainer(policy=p, batch_size=256).run()",
    ),
    "on-policy training in 2.0.1": (
        {"tianshou": "2.0.1"},
        "from tianshou.trainer import OnPolicyTrainerParams\nOnPolicyTrainerParams(batch_size=64)",
    ),
    "a variable that the program reads itself": (
        {},
        """
        import os, torch
        os.environ.setdefault("TORCH_NUM_THREADS", "1")
        torch.set_num_interop_threads(int(os.environ["TORCH_NUM_THREADS"]))
        """,
    ),
    "a variable beside the one that is read": (
        {},
        'import os\nos.environ["TORCH_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"',
    ),
    "ppo of 1.1.0": (NEW_T, "from tianshou.policy import PPOPolicy\npolicy = PPOPolicy(actor, critic, optim)"),
    "ppo of 0.4.10": ({"tianshou": "0.4.10"}, "from tianshou.policy import PPOPolicy\npolicy = PPOPolicy(a, c, o)"),
    "another PPOPolicy": (OLD_T, "from mylib.policy import PPOPolicy\npolicy = PPOPolicy(a, c, o)"),
    "a PPOPolicy of one's own": (OLD_T, "class PPOPolicy: ...\npolicy = PPOPolicy()"),
    "dqn of 1.0.0": (OLD_T, "from tianshou.policy import DQNPolicy\npolicy = DQNPolicy(model, optim)"),
    "the fixed class": (OLD_T, "from rlrepro.fixes import ChunkedPPOPolicy\npolicy = ChunkedPPOPolicy(a, c, o)"),
    "ppo in a text": (OLD_T, 'help = "from tianshou.policy import PPOPolicy; PPOPolicy(a)"  # PPOPolicy(a)'),
    "a smaller batch_size": (
        NEW_T,
        """
        from tianshou.policy import PPOPolicy
        from tianshou.trainer import OnpolicyTrainer
        OnpolicyTrainer(policy=PPOPolicy(a, c, o), batch_size=64)
        """,
    ),
    "both sizes given": (
        NEW_T,
        """
        from tianshou.policy import PPOPolicy
        from tianshou.trainer import OnpolicyTrainer
        OnpolicyTrainer(policy=PPOPolicy(a, c, o, max_batchsize=4096), batch_size=4096)
        """,
    ),
    "sizes that can't be seen": (
        NEW_T,
        """
        from tianshou.policy import PPOPolicy
        from tianshou.trainer import OnpolicyTrainer
        OnpolicyTrainer(policy=PPOPolicy(a, c, o, **args), batch_size=4096)
        OnpolicyTrainer(policy=PPOPolicy(a, c, o, max_batchsize=args.size), batch_size=args.batch)
        """,
    ),
    "batch_size of none elsewhere": (
        NEW_T,
        "from torch.utils.data import DataLoader\nDataLoader(data, batch_size=None)",
    ),
    "collecting without gradients": (
        KEEPS,
        """
        import torch
        from tianshou.data import Collector
        collector = Collector(policy, envs)
        collector.collect = torch.no_grad()(collector.collect)
        """,
    ),
    "collecting in 1.1.0": (NEW_T, "from tianshou.data import Collector\nCollector(policy, envs)"),
    "the incremental sampler": (
        OLD_R,
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
        NEW_R,
        """
        from torchrl.data import ReplayBuffer, SliceSampler
        rb = ReplayBuffer(storage=s, sampler=SliceSampler(slice_len=4, end_key="d", cache_values=True), batch_size=64)
        rb.extend(dataset)
        for _ in range(1000):
            rb.sample()
        """,
    ),
    "filled in one loop and sampled in another": (
        NEW_R,
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
        OLD_R,
        """
        from torchrl.data import ReplayBuffer, RandomSampler
        rb = ReplayBuffer(storage=s, sampler=RandomSampler(), batch_size=64)
        for _ in range(10):
            rb.extend(x)
            rb.sample()
        """,
    ),
    "sample of something else": (
        NEW_R,
        "import random\nfor _ in range(3):\n    random.sample(population, 3)\n    names.extend(more)",
    ),
    "a pool with one thread each": (
        {},
        """
        import os
        os.environ["OMP_NUM_THREADS"] = "1"
        import torch
        from multiprocessing import Pool
        with Pool(8) as pool:
            pool.map(train, range(8))
        """,
    ),
    "workers that limit themselves": (
        {},
        """
        import torch
        from multiprocessing import Process
        def train(seed):
            torch.set_num_threads(1)
            learn(seed)
        for seed in range(4):
            Process(target=train, args=(seed,)).start()
        """,
    ),
    "a pool without torch": (
        {},
        "from multiprocessing import Pool\nwith Pool(8) as pool:\n    pool.map(str.upper, words)",
    ),
    "a pool of threads": (
        {},
        """
        import torch
        from multiprocessing.pool import ThreadPool
        from concurrent.futures import ThreadPoolExecutor
        ThreadPool(4).map(load, files)
        ThreadPoolExecutor(4).map(load, files)
        """,
    ),
    "one process": (
        {},
        "import torch\nfrom multiprocessing import Process\nlogger = Process(target=log)\nlogger.start()",
    ),
    "a pool of one": (
        {},
        "import torch\nfrom multiprocessing import Pool\nwith Pool(1) as pool:\n    pool.apply(train)",
    ),
    "one command": ({}, "import subprocess, torch\nsubprocess.run(['git', 'rev-parse', 'HEAD'])"),
    "commands beside torch": (
        {},
        "import torch, subprocess\nfor name in names:\n    subprocess.Popen(['convert', name])",
    ),
    "scripts one after another": (
        {},
        "import subprocess, sys\nfor seed in range(3):\n    subprocess.run([sys.executable, 'train.py', str(seed)])",
    ),
    "commands that are not training runs": (
        {},
        "import subprocess\nfor name in names:\n    subprocess.run(['convert', name])",
    ),
    "a pool of another kind": (
        {},
        "import torch\nfrom torch.nn import MaxPool2d\nlayers = [MaxPool2d(2) for _ in range(3)]",
    ),
    "spawn after work": (
        {},
        """
        import torch, multiprocessing
        from rlrepro.fixes import limit_threads
        def main():
            table = torch.randn(10, 10)
            with multiprocessing.get_context("spawn").Pool(4) as pool:
                pool.map(evaluate, table)
        """,
    ),
    "threads set first": ({}, "import torch\ntorch.set_num_threads(1)\nx = torch.randn(3)"),
    "threads set in another function": (
        {},
        "import torch\ndef a():\n    return torch.randn(3)\ndef worker():\n    torch.set_num_threads(1)",
    ),
    "environments that do not compute": (
        {},
        """
        import torch
        from stable_baselines3.common.vec_env import SubprocVecEnv
        class Game:
            def reset(self): return 0
            def step(self, action): return 0
        envs = SubprocVecEnv([Game for _ in range(8)])
        """,
    ),
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
    "buffers of one name in two functions": (
        {"torchrl": "0.14.1"},
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
        {"torchrl": "0.14.1"},
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
    # what only looked like it on strangers' code
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
    "environment workers without torch": (
        {},
        """
        import torch
        from multiprocessing import Process
        def worker(remote, make):
            env = make()
            while True:
                remote.send(env.step(remote.recv()))
        class Envs:
            def __init__(self, makers):
                self.processes = [Process(target=worker, args=(None, each)) for each in makers]
        class Agent:
            def step(self):
                self.loss.backward()
        """,
    ),
    "one process for each GPU": (
        {},
        """
        import torch, torch.distributed as dist
        import torch.multiprocessing as mp
        def train(rank):
            dist.init_process_group("nccl")
            loss(rank).backward()
        mp.spawn(train, nprocs=torch.cuda.device_count())
        """,
    ),
    "a target that can't be seen": (
        {},
        "import torch\nfrom multiprocessing import Process\nfor f in jobs:\n    Process(target=f).start()",
    ),
    "branches of one if": (
        {},
        """
        import os, torch
        from multiprocessing import Pool
        def main(alone, seeds):
            if alone:
                train(0).backward()
            else:
                with Pool(4) as pool:
                    pool.map(print, seeds)
        """,
    ),
    "a release that nobody names": ({}, "from tianshou.data import Collector\nc = Collector(policy, envs)"),
    "an old release by its API": (
        {},
        "from tianshou.data import Collector\nfrom tianshou.utils import BasicLogger\nc = Collector(policy, envs)",
    ),
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
    "a parent that sleeps": (
        {"torchrl": "0.11.1"},
        "from torchrl.envs import ParallelEnv\nenv = ParallelEnv(8, make_env)",
    ),
    "a parent that waits on pipes": (
        NEW_R,
        "from torchrl.envs import ParallelEnv\nenv = ParallelEnv(8, make_env, use_buffers=False)",
    ),
    "environments of a release that nobody names": (
        {},
        "from torchrl.envs import ParallelEnv\nenv = ParallelEnv(8, make_env)",
    ),
    "ppo of RLlib with our learner": (
        {"ray": "2.60.0"},
        """
        from ray.rllib.algorithms.ppo import PPOConfig
        from rlrepro.fixes import ChunkedPPOTorchLearner
        config = PPOConfig().training(train_batch_size_per_learner=4000)
        config.learners(learner_class=ChunkedPPOTorchLearner)
        """,
    ),
    "ppo of RLlib's old stack": (
        {"ray": "2.60.0"},
        """
        from ray.rllib.algorithms.ppo import PPOConfig
        config = PPOConfig().api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
        """,
    ),
    "ppo of an RLlib without the new stack": (
        {"ray": "2.9.3"},
        "from ray.rllib.algorithms.ppo import PPOConfig\nconfig = PPOConfig().training(train_batch_size=4000)",
    ),
    "a train batch of one minibatch": (
        {"ray": "2.60.0"},
        """
        from ray.rllib.algorithms.ppo import PPOConfig
        config = PPOConfig().training(train_batch_size_per_learner=128, minibatch_size=128)
        """,
    ),
    "dqn of RLlib": (
        {"ray": "2.60.0"},
        "from ray.rllib.algorithms.dqn import DQNConfig\nconfig = DQNConfig().training(train_batch_size=32)",
    ),
}

DEBUG = (
    "import torch\ndef debug():\n    torch.autograd.set_detect_anomaly(True)\ndef train(): torch.ones(1).backward()\n"
)
AGENT = "import torch\nclass Agent:\n    def learn(self):\n        torch.autograd.set_detect_anomaly(True)\n"
RUN = {"train.py": "from agent import debug\ndebug()\n"}
ON = "torch.autograd.set_detect_anomaly(True)\ntorch.ones(1).backward()\n"
ROLLOUT = """
import torch
net = torch.nn.Conv2d(4, 32, 8)
def update(obs, optimizer):
    {}old = net(obs)
    for batch in obs.split(64):
        (net(batch) - old).mean().backward()
update(rollout(), optimizer)
def rollout(): pass
optimizer = torch.optim.Adam(net.parameters())
"""

ON_IN_FILE = f"import torch\n{ON}"
SAMPLED = """
import random
import gym
import torch
def learn(memory, {}):
    states, actions = zip(*random.sample(memory, 32))
    return torch.FloatTensor(states)
learn([])
{}
"""
ONE_IMAGE = """
import torch
net = torch.nn.Conv2d(4, 32, 8)
def {0}(observation):
    return torch.tensor([observation])
{0}(0)
"""
OPTIONAL = """
import torch
net = torch.nn.Conv2d(4, 32, 8)
def choose_action(observation, args, frames):
    if {}:
        return torch.tensor([observation])
choose_action(0, 0, 0)
"""
PROCESSES = """
import torch
from multiprocessing import Process
net = torch.nn.Conv2d(4, 32, 8)
def {0}(policy):
    policy.act(net)
for k in range(8):
    Process(target={0}).start()
"""

DOUBTFUL = {
    "a function that nothing calls": ("TO002", {"agent.py": DEBUG}, RUN),
    "a function that only tests call": ("TO002", {"agent.py": DEBUG, "tests/test_agent.py": RUN["train.py"]}, RUN),
    "a function that only an unused one calls": ("TO002", {"agent.py": DEBUG + "def main():\n    debug()\n"}, RUN),
    "a function that settings may name": ("TO002", {"agent.py": DEBUG}, {"run.yaml": "call: agent.debug"}),
    "an interface of a package that can't be installed": (
        "TO002",
        {"agents/__init__.py": "from agents.agent import debug", "agents/agent.py": DEBUG},
        {"setup.py": ""},
    ),
    "a class whose namesake is created": (
        "TO002",
        {"agent.py": AGENT, "other.py": "class Agent: pass", "train.py": "from other import Agent\nAgent().learn()"},
        {"train.py": "from agent import Agent\nAgent().learn()"},
    ),
    "an import that the project lacks": (
        "TO002",
        {"envs/__init__.py": "", "envs/maze.py": "", "train.py": f"import torch\nfrom envs.cave import Cave\n{ON}"},
        {"envs/cave.py": "class Cave: pass"},
    ),
    "a name that is bound nowhere": (
        "TO002",
        {"params.py": "", "train.py": f"import torch\nfrom params import *\n{ON}print(EPOCHS)"},
        {"params.py": "EPOCHS = 3"},
    ),
    "code that is only kept": ("TO002", {"old/train.py": ON_IN_FILE}, {"old/train.py": "", "new/train.py": ON_IN_FILE}),
    "a script that trains nothing": (
        "TO002",
        {"watch.py": "import torch\ntorch.autograd.set_detect_anomaly(True)\nprint(play())\ndef play(): pass"},
        {"watch.py": "import torch\ntorch.autograd.set_detect_anomaly(True)\ntrain()\ndef train(): pass"},
    ),
    "short vectors in small minibatches": (
        "TO001",
        {"train.py": SAMPLED.format("batch_size=64", "")},
        {"train.py": SAMPLED.format("batch_size=256", "")},
    ),
    "short vectors, whatever their number": (
        "TO001",
        {"train.py": SAMPLED.format("size=64", "")},
        {"train.py": SAMPLED.format("size=64", "net = torch.nn.Conv2d(4, 32, 8)")},
    ),
    "one image for each update": (
        "TO001",
        {"train.py": ONE_IMAGE.format("loss")},
        {"train.py": ONE_IMAGE.format("choose_action")},
    ),
    "an image that an option asks for": (
        "TO001",
        {"train.py": OPTIONAL.format("args.frames > 1")},
        {"train.py": OPTIONAL.format("frames > 1")},
    ),
    "processes that evaluate": (
        "PT001",
        {"train.py": PROCESSES.format("evaluate")},
        {"train.py": PROCESSES.format("self_play")},
    ),
    "a rollout without a graph": (
        "RO001",
        {"train.py": ROLLOUT.format("with torch.no_grad(): ")},
        {"train.py": ROLLOUT.format("")},
    ),
}
