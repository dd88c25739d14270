"""Workloads of Pearl itself, in a process of Release("pearl"). `pearl_reimplementation` has the same functions.

Both call the parts of a transition state, next state, action, available now, available next, masks and rest.
"""

import torch

from rlrepro.cases.large_actions import BATCH, HIDDEN, STATE
from rlrepro.lab import peak_memory

PARTS = {  # by the stored tensor's name in Pearl
    "state": "state",
    "next_state": "next state",
    "action": "action",
    "curr_available_actions": "available now",
    "next_available_actions": "available next",
    "curr_unavailable_actions_mask": "masks",
    "next_unavailable_actions_mask": "masks",
}


def stored(count: int, features: int, *, history: int | None = None, copies: int | None = None) -> dict[str, int]:
    """Bytes of each part of one stored transition, with `count` actions of `features` numbers each.

    Args:
        history: length of the LSTM's history; None for no history
        copies: ensemble members of a BootstrapReplayBuffer; None for the usual buffer
    """
    agent, step = _agent(count, features, history=history, copies=copies)
    step()
    sizes = {}
    for name, tensor in vars(agent.replay_buffer.memory[0]).items():
        if isinstance(tensor, torch.Tensor):
            part = PARTS.get(name, "rest")
            sizes[part] = sizes.get(part, 0) + tensor.untyped_storage().nbytes()
    return sizes


def update_peak(count: int, features: int, batch_size: int, device: str, *, factored: bool = False) -> int:
    """Peak bytes of the learner's whole update on `batch_size` transitions; `factored` uses PearlFactoredQ."""
    agent, step = _agent(count, features, device=device, factored=factored)
    for _ in range(batch_size):
        step()
    learner = agent.policy_learner
    batch = learner.preprocess_batch(agent.replay_buffer.sample(batch_size))
    return peak_memory(lambda: learner.learn_batch(batch), device=device).peak_bytes


def batch_peak(count: int, batch_size: int, *, one_hot: bool) -> int:
    """Peak bytes of preparing a batch for the update, with actions as integers or as one-hot vectors."""
    agent, step = _agent(count, 1, one_hot=one_hot)
    for _ in range(batch_size):
        step()
    buffer, learner = agent.replay_buffer, agent.policy_learner
    return peak_memory(lambda: learner.preprocess_batch(buffer.sample(batch_size)), device="cpu").peak_bytes


def since_start(count: int, features: int, stored_at: list[int], capacity: int, device: str) -> list[dict[str, int]]:
    """For each number of stored transitions: the `peak` bytes of agent.learn(), and the bytes `held` by the buffer."""
    agent, step = _agent(count, features, capacity=capacity, device=device)
    sizes, pushed = [], 0
    for target_size in stored_at:
        while pushed < target_size:
            step()
            pushed += 1
        fields = (field for transition in agent.replay_buffer.memory for field in vars(transition).values())
        tensors = [field for field in fields if isinstance(field, torch.Tensor)]
        buffer_bytes = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
        sizes.append({"peak": peak_memory(agent.learn, device=device).peak_bytes, "held": buffer_bytes})
    return sizes


def _agent(
    count: int,
    features: int,
    *,
    capacity: int = 1_000,
    history: int | None = None,
    copies: int | None = None,
    one_hot: bool = False,
    factored: bool = False,
    device: str = "cpu",
):
    """An agent configured as in Pearl#72, and a function that lets it observe one step."""
    from pearl.action_representation_modules.identity_action_representation_module import (
        IdentityActionRepresentationModule,
    )
    from pearl.action_representation_modules.one_hot_action_representation_module import (
        OneHotActionTensorRepresentationModule,
    )
    from pearl.api.action_result import ActionResult
    from pearl.history_summarization_modules.lstm_history_summarization_module import LSTMHistorySummarizationModule
    from pearl.pearl_agent import PearlAgent
    from pearl.policy_learners.sequential_decision_making.soft_actor_critic import SoftActorCritic
    from pearl.replay_buffers import BasicReplayBuffer
    from pearl.replay_buffers.sequential_decision_making.bootstrap_replay_buffer import BootstrapReplayBuffer
    from pearl.utils.instantiations.spaces.discrete_action import DiscreteActionSpace

    table = torch.arange(count, dtype=torch.float32).unsqueeze(1) if features == 1 else torch.rand(count, features)
    space = DiscreteActionSpace(list(table))
    action_module = (
        OneHotActionTensorRepresentationModule(max_number_actions=count)
        if one_hot
        else IdentityActionRepresentationModule(max_number_actions=count, representation_dim=features)
    )
    critic_options = {}
    if factored:
        from rlrepro.fixes import PearlFactoredQ

        critic_options["critic_network_type"] = PearlFactoredQ
    state_dim = 128 if history else STATE  # the LSTM's summary replaces the state
    learner = SoftActorCritic(
        state_dim=state_dim,
        action_space=space,
        actor_hidden_dims=list(HIDDEN),
        critic_hidden_dims=list(HIDDEN),
        batch_size=BATCH,
        training_rounds=1,
        action_representation_module=action_module,
        **critic_options,
    )
    options = {}
    if history:
        options["history_summarization_module"] = LSTMHistorySummarizationModule(STATE, features, history, state_dim)
    buffer = BasicReplayBuffer(capacity) if copies is None else BootstrapReplayBuffer(capacity, 0.5, copies)
    agent = PearlAgent(
        policy_learner=learner,
        replay_buffer=buffer,
        device_id=int(torch.device(device).index or 0) if device.startswith("cuda") else -1,
        **options,
    )
    agent.reset(torch.rand(STATE), space)

    def step():
        agent._latest_action = space[int(torch.randint(count, ()))]
        agent.observe(ActionResult(observation=torch.rand(STATE), reward=1.0, terminated=False, truncated=False))

    return agent, step
