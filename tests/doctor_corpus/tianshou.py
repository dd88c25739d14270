"""tianshou: peaks of PPO and A2C, graphs that are kept, searches of whole buffers."""

OLD, NEW, KEEPS = {"tianshou": "1.0.0"}, {"tianshou": "1.1.0"}, {"tianshou": "1.2.0"}

TROUBLED = {
    "ppo of 1.0.0": (
        {"TS001"},
        OLD,
        "from tianshou.policy import PPOPolicy\npolicy = PPOPolicy(actor, critic, optim)",
    ),
    "ppo of 0.4.11 by its module": (
        {"TS001"},
        {"tianshou": "0.4.11"},
        "from tianshou.policy.modelfree.ppo import PPOPolicy as P\np = P(actor=a, critic=c)",
    ),
    "ppo through the package": ({"TS001"}, OLD, "import tianshou as ts\npolicy = ts.policy.PPOPolicy(a, c, o)"),
    "ppo by a star": ({"TS001"}, OLD, "from tianshou.policy import *\npolicy = PPOPolicy(a, c, o)"),
    "ppo of a release that is not known": ({"TS001"}, {}, "from tianshou.policy import PPOPolicy\nPPOPolicy(a, c, o)"),
    "a larger batch_size": (
        {"TS002"},
        NEW,
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
        NEW,
        "from tianshou.policy import A2CPolicy\nA2CPolicy(a, c, o, max_batchsize=None)",
    ),
    "batch_size of zero": (
        {"TS003"},
        NEW,
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
        KEEPS,
        "from tianshou.trainer import OffpolicyTrainer\nOffpolicyTrainer(policy=p, batch_size=256).run()",
    ),
    "on-policy training in 2.0.1": (
        {"tianshou": "2.0.1"},
        "from tianshou.trainer import OnPolicyTrainerParams\nOnPolicyTrainerParams(batch_size=64)",
    ),
    "ppo of 1.1.0": (NEW, "from tianshou.policy import PPOPolicy\npolicy = PPOPolicy(actor, critic, optim)"),
    "ppo of 0.4.10": ({"tianshou": "0.4.10"}, "from tianshou.policy import PPOPolicy\npolicy = PPOPolicy(a, c, o)"),
    "another PPOPolicy": (OLD, "from mylib.policy import PPOPolicy\npolicy = PPOPolicy(a, c, o)"),
    "a PPOPolicy of one's own": (OLD, "class PPOPolicy: ...\npolicy = PPOPolicy()"),
    "dqn of 1.0.0": (OLD, "from tianshou.policy import DQNPolicy\npolicy = DQNPolicy(model, optim)"),
    "the fixed class": (OLD, "from rlrepro.fixes import ChunkedPPOPolicy\npolicy = ChunkedPPOPolicy(a, c, o)"),
    "ppo in a text": (OLD, 'help = "from tianshou.policy import PPOPolicy; PPOPolicy(a)"  # PPOPolicy(a)'),
    "a smaller batch_size": (
        NEW,
        """
        from tianshou.policy import PPOPolicy
        from tianshou.trainer import OnpolicyTrainer
        OnpolicyTrainer(policy=PPOPolicy(a, c, o), batch_size=64)
        """,
    ),
    "both sizes given": (
        NEW,
        """
        from tianshou.policy import PPOPolicy
        from tianshou.trainer import OnpolicyTrainer
        OnpolicyTrainer(policy=PPOPolicy(a, c, o, max_batchsize=4096), batch_size=4096)
        """,
    ),
    "sizes that can't be seen": (
        NEW,
        """
        from tianshou.policy import PPOPolicy
        from tianshou.trainer import OnpolicyTrainer
        OnpolicyTrainer(policy=PPOPolicy(a, c, o, **args), batch_size=4096)
        OnpolicyTrainer(policy=PPOPolicy(a, c, o, max_batchsize=args.size), batch_size=args.batch)
        """,
    ),
    "batch_size of none elsewhere": (
        NEW,
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
    "collecting in 1.1.0": (NEW, "from tianshou.data import Collector\nCollector(policy, envs)"),
    "a release that nobody names": ({}, "from tianshou.data import Collector\nc = Collector(policy, envs)"),
    "an old release by its API": (
        {},
        "from tianshou.data import Collector\nfrom tianshou.utils import BasicLogger\nc = Collector(policy, envs)",
    ),
}
