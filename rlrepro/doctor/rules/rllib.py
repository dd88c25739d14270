"""Rules for RLlib."""

import ast
import re

from rlrepro.doctor.edits import imported, replaced
from rlrepro.doctor.finding import rule

NEW_STACK = ">=2.40"  # by default; 2.60.0 is the newest release that was checked
NEW_STACK_WORDS = {"train_batch_size_per_learner", "num_learners", "num_gpus_per_learner", "rl_module_spec"}
SWITCHES = ("enable_rl_module_and_learner", "enable_env_runner_and_connector_v2")
LARGE = re.compile(r"\b(Conv[23]d\(|conv_filters|cnn_filter_specifiers|use_lstm|use_attention)|ALE/|NoFrameskip")


def _chunked(module, call):
    new = imported(module, "from rlrepro.fixes import ChunkedPPOTorchLearner", beside="ray")
    text = f"{ast.unparse(call)}.learners(learner_class=ChunkedPPOTorchLearner)"
    return [] if new is None else [replaced(call, text), *new]


@rule(
    "RL001",
    "PPO's value network gets the whole train batch at once, with gradients",
    words=("PPOConfig",),
    fix="Import ChunkedPPOTorchLearner from rlrepro.fixes, and call "
    "config.learners(learner_class=ChunkedPPOTorchLearner)",
    chapter="10_rllib_value_pass",
    claims=("RL1", "RL5"),
    autofix=_chunked,
)
def whole_train_batch(module, project):
    """Before the first minibatch, RLlib computes the values of the whole train batch in one call and records gradients
    that nothing uses: memory grows with `train_batch_size_per_learner`, and `minibatch_size` does not bound it."""
    settings = {keyword.arg: keyword.value for node in module.nodes[ast.Call] for keyword in node.keywords}
    if "learner_class" in settings or any(module.value(settings.get(name)) is False for name in SWITCHES):
        return
    if not project.versions.any_in(module, "ray", NEW_STACK):
        return
    names = "train_batch_size_per_learner", "minibatch_size"
    batch, minibatch = (module.value(settings.get(name)) for name in names)
    if isinstance(batch, int) and isinstance(minibatch, int) and batch <= minibatch:
        return
    is_new = NEW_STACK_WORDS & set(settings) or project.versions.all_in(module, "ray", NEW_STACK)
    confidence = "medium" if is_new and LARGE.search(module.text) else "low"
    for call in module.calls("ray", "PPOConfig"):
        size = f"all {batch:,} timesteps" if isinstance(batch, int) else "all timesteps"
        yield call, f"the value network gets {size} of a train batch at once, with gradients", confidence
