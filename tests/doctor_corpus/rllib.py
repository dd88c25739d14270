"""RLlib's PPO."""

TROUBLED = {
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
    "ppo of an RLlib between the releases that were checked": (
        {"RL001"},
        {"ray": "2.41.0"},
        "from ray.rllib.algorithms.ppo import PPOConfig\nconfig = PPOConfig().environment('CartPole-v1')",
    ),
    "ppo of RLlib with its defaults": (
        {"RL001"},
        {},
        "from ray.rllib.algorithms.ppo import PPOConfig\nconfig = PPOConfig().environment('CartPole-v1')",
    ),
}

INNOCENT = {
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
