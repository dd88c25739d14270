"""What is run on Pearl itself, in a process of Release("pearl"). `model` has the same functions without Pearl.

A transition's parts are named alike in both: state, next state, action, available now, available next, masks, rest.
"""

import torch

from rlrepro.cases.large_actions import BATCH, HIDDEN, STATE
from rlrepro.lab import peak_memory

PARTS = {  # Pearl's name of a stored tensor: ours
    "state": "state",
    "next_state": "next state",
    "action": "action",
    "curr_available_actions": "available now",
    "next_available_actions": "available next",
    "curr_unavailable_actions_mask": "masks",
    "next_unavailable_actions_mask": "masks",
}


def stored(count: int, features: int, *, history: int | None = None, copies: int | None = None) -> dict[str, int]:
    """Bytes of each part of one stored transition, with `count` actions of so many features.

    history  length of the LSTM's history; None is without a history
    copies   ensemble members of a BootstrapReplayBuffer; None is the usual buffer
    """
    agent, step = _agent(count, features, history=history, copies=copies)
    step()
    found = {}
    for name, tensor in vars(agent.replay_buffer.memory[0]).items():
        if isinstance(tensor, torch.Tensor):
            part = PARTS.get(name, "rest")
            found[part] = found.get(part, 0) + tensor.untyped_storage().nbytes()
    return found


def critic_peak(count: int, features: int, rows: int, device: str) -> int:
    """Peak bytes of one critic, forward and backward, on all actions of so many rows."""
    agent, step = _agent(count, features, device=device)
    for _ in range(rows):
        step()
    learner = agent.policy_learner
    batch = learner.preprocess_batch(agent.replay_buffer.sample(rows))
    critic = learner._critic._critic_1

    def update():
        critic.zero_grad()
        critic.get_q_values(batch.state, batch.curr_available_actions).square().mean().backward()

    return peak_memory(update, device=device).peak_bytes


def update_peak(count: int, features: int, rows: int, device: str, *, factored: bool = False) -> int:
    """Peak bytes of the learner's whole update with so many rows; `factored` with PearlFactoredQ as its critics."""
    agent, step = _agent(count, features, device=device, factored=factored)
    for _ in range(rows):
        step()
    learner = agent.policy_learner
    batch = learner.preprocess_batch(agent.replay_buffer.sample(rows))
    return peak_memory(lambda: learner.learn_batch(batch), device=device).peak_bytes


def batch_peak(count: int, rows: int, *, one_hot: bool) -> int:
    """Peak bytes of making one batch ready for the update, with integer actions or as one-hot vectors."""
    agent, step = _agent(count, 1, one_hot=one_hot)
    for _ in range(rows):
        step()
    buffer, learner = agent.replay_buffer, agent.policy_learner
    return peak_memory(lambda: learner.preprocess_batch(buffer.sample(rows)), device="cpu").peak_bytes


def since_start(count: int, features: int, stored_at: list[int], capacity: int, device: str) -> list[dict[str, int]]:
    """When so many transitions have been pushed: peak bytes of agent.learn(), and bytes that the buffer holds."""
    agent, step = _agent(count, features, capacity=capacity, device=device)
    found, pushed = [], 0
    for target in stored_at:
        while pushed < target:
            step()
            pushed += 1
        tensors = [t for each in agent.replay_buffer.memory for t in vars(each).values() if isinstance(t, torch.Tensor)]
        held = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
        found.append({"peak": peak_memory(agent.learn, device=device).peak_bytes, "held": held})
    return found


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
    """An agent as in Pearl#72, and a function that lets it observe one step."""
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
    module = (
        OneHotActionTensorRepresentationModule(max_number_actions=count)
        if one_hot
        else IdentityActionRepresentationModule(max_number_actions=count, representation_dim=features)
    )
    critic = {}
    if factored:
        from rlrepro.fixes import PearlFactoredQ

        critic["critic_network_type"] = PearlFactoredQ
    width = 128 if history else STATE  # the LSTM's summary takes the state's place
    learner = SoftActorCritic(
        state_dim=width,
        action_space=space,
        actor_hidden_dims=list(HIDDEN),
        critic_hidden_dims=list(HIDDEN),
        batch_size=BATCH,
        training_rounds=1,
        action_representation_module=module,
        **critic,
    )
    options = {}
    if history:
        options["history_summarization_module"] = LSTMHistorySummarizationModule(STATE, features, history, width)
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
